// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/memstore"
)

func send(t *testing.T, mails *sluice.Limiter, customer string, want bool) {
	t.Helper()
	if got, err := mails.Allow(t.Context(), customer); err != nil || got != want {
		t.Errorf("%s: %v, %v; want %v", customer, got, err, want)
	}
}

func TestMemory(t *testing.T) {
	mails, err := newLimit(memstore.New(memstore.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, true, true, false} {
		send(t, mails, "acme", want)
	}
	send(t, mails, "beta", true)
}

// TestRedis: two processes send 3 mails together.
func TestRedis(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	var mails [2]*sluice.Limiter
	for i := range mails {
		var err error
		if mails[i], err = openLimit(t.Context(), "redis://"+server.Addr); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{true, true, true, false, false} {
		send(t, mails[i%2], "acme", want)
	}
	send(t, mails[0], "beta", true)
}
