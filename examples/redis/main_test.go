// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/sluicegate/sluice/memstore"
)

func TestMemory(t *testing.T) {
	mails, err := newLimit(memstore.New(memstore.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, true, false} {
		if got, err := mails.Allow(t.Context(), "acme"); err != nil || got != want {
			t.Errorf("mail %d: %v, %v; want %v", i+1, got, err, want)
		}
	}
}
