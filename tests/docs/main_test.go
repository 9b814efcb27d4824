// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the folder of the documents.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../docs"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
