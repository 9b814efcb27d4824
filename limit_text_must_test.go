// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func TestMustReturns(t *testing.T) {
	lim := sluice.Must(sluice.New(memstore.New(memstore.Options{}), "login", sluice.PerMinute(1)))
	for _, want := range []bool{true, false} {
		if got, err := lim.Allow(t.Context(), "ann"); err != nil || got != want {
			t.Errorf("allowed %v, %v; want %v", got, err, want)
		}
	}
}

// TestMustPanics: Must panics with the error itself, so that the program shows it.
func TestMustPanics(t *testing.T) {
	defer func() {
		err, _ := recover().(error)
		if _, ok := errors.AsType[*sluice.LimitError](err); !ok {
			t.Errorf("panicked with %v, want a LimitError", err)
		}
	}()
	sluice.Must(sluice.New(memstore.New(memstore.Options{}), "login", sluice.PerMinute(0)))
	t.Error("no panic")
}
