// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rueidisstore_test

import (
	"os"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// TestPasswordIsReadAgain: a connection made after a change of the password uses the new one,
// or the last one if the file is invalid.
func TestPasswordIsReadAgain(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	admin := server.Client(t) // stays connected, and so authenticated
	do := func(command ...string) { redistest.Do(t, admin, command...) }
	do("CONFIG", "SET", "requirepass", "one")
	file := write(t, "one\n")
	store, err := rueidisstore.Open(t.Context(), "redis://"+server.Addr+"?password_file="+file, redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, store)
	lim := testkit.Limiter(t, store, "scope", "1000/min")
	// works sends takes until one is decided: cut connections fail first.
	works := func(when string) {
		t.Helper()
		testkit.Until(t, "a decision "+when, func() bool {
			_, err := lim.Take(t.Context(), "k", 1)
			return err == nil
		})
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
