// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisurl_test

import (
	"os"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
)

// TestPasswordIsReadAgain: a connection that is made after the password has
// changed uses the new one, and the last good one where the file is none.
func TestPasswordIsReadAgain(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	admin := server.Client(t) // stays connected, and so authenticated
	do := func(command ...string) {
		t.Helper()
		if err := admin.Do(t.Context(), admin.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	do("CONFIG", "SET", "requirepass", "one")
	file := write(t, "one\n")
	store, err := redisstore.Open(t.Context(), "redis://"+server.Addr+"?password_file="+file, redisstore.Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	lim, err := sluice.New(store, "scope", sluice.PerMinute(1000))
	if err != nil {
		t.Fatal(err)
	}
	// works takes until one is decided: connections that were cut fail first.
	works := func(when string) {
		t.Helper()
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for end := time.Now().Add(20 * time.Second); ; <-tick.C {
			_, err := lim.Take(t.Context(), "k", 1)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %v", when, err)
			}
		}
	}
	works("at first")
	if err := os.WriteFile(file, []byte("two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	do("CONFIG", "SET", "requirepass", "two")
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	works("with the second password")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	works("with a file that is empty")
}
