// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package docs_test

import (
	"fmt"
	"os"
	"testing"
)

var bin string // folder of the sluice program, once it is built

// TestMain runs the tests in the folder of the documents.
func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := os.Chdir("../../docs"); err != nil {
		return 0, err
	}
	if bin, err = os.MkdirTemp("", "docs"); err != nil {
		return 0, err
	}
	code = m.Run()
	return code, os.RemoveAll(bin)
}
