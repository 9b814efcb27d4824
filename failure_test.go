// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"testing"

	"github.com/sluicegate/sluice"
)

func TestFailureNames(t *testing.T) {
	for f, name := range map[sluice.Failure]string{sluice.FailOpen: "open", sluice.FailLocal: "local", sluice.FailClosed: "closed"} {
		if got, err := sluice.ParseFailure(name); err != nil || got != f || !f.Valid() {
			t.Errorf("ParseFailure(%q) = %v, %v", name, got, err)
		}
		if f.String() != name {
			t.Errorf("String = %q, want %q", f, name)
		}
	}
	if _, err := sluice.ParseFailure("ajar"); err == nil {
		t.Error(`ParseFailure("ajar"): no error`)
	}
	if f := sluice.Failure(9); f.String() != "Failure(9)" || f.Valid() {
		t.Errorf("Failure(9) = %v, valid: %t", f, f.Valid())
	}
}
