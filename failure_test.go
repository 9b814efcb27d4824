// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"testing"

	"github.com/sluicegate/sluice"
)

func TestFailureNames(t *testing.T) {
	for f, name := range map[sluice.Failure]string{sluice.FailOpen: "open", sluice.FailLocal: "local", sluice.FailClosed: "closed"} {
		if f.String() != name {
			t.Errorf("String = %q, want %q", f, name)
		}
	}
	if f := sluice.Failure(9); f.String() != "Failure(9)" {
		t.Errorf("Failure(9) = %v", f)
	}
}
