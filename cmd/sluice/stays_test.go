// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
)

// staying are flags whose states were kept before flags were a configuration:
// testdata/before.state is of two requests of u1 and one of a|b%.
var staying = []string{"--limit", "3/h sliding-log", "--limit", "slow: 1MB/day fixed-window", "--by", "query.userId", "--by", "header.X-A"}

// TestStateOfBefore: a file of states that an older version wrote is read.
func TestStateOfBefore(t *testing.T) {
	written, err := os.ReadFile("testdata/before.state")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sluice.state")
	now := func() time.Time { return time.Unix(1795355345, 0) } // some seconds later
	if err := os.WriteFile(file, written, 0o600); err != nil {
		t.Fatal(err)
	}
	starts(t, now, append([]string{"--state", file}, staying...), func(t *testing.T, r *running) {
		for path, passes := range map[string]int{"/?userId=u1": 1, "/?userId=a%7Cb%25": 2, "/?userId=u2": 3} {
			passed := 0
			for range 5 {
				if r.get(t, path, "X-A", "z").status == http.StatusOK {
					passed++
				}
			}
			if passed != passes {
				t.Errorf("%s: %d pass, want %d", path, passed, passes)
			}
		}
		r.end(t)
		if err := os.WriteFile(file, written, 0o600); err != nil { // for the next
			t.Fatal(err)
		}
	})
}

// TestKeysOfBefore: states in Redis have the keys that older versions gave them.
func TestKeysOfBefore(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	starts(t, nil, append([]string{"--store", server.URL()}, staying...), func(t *testing.T, r *running) {
		for _, path := range []string{"/?userId=u1", "/?userId=a%7Cb%25"} {
			r.get(t, path, "X-A", "z")
		}
		client := server.Client(t)
		got, err := client.Do(t.Context(), client.B().Keys().Pattern("sluice{1gateway*").Build()).AsStrSlice()
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(got)
		want := []string{
			"sluice{1gateway.bytes/a%257Cb%2525|z}slow", "sluice{1gateway.bytes/u1|z}slow",
			"sluice{1gateway/a%257Cb%2525|z}Ghour", "sluice{1gateway/u1|z}Ghour",
		}
		if !slices.Equal(got, want) {
			t.Errorf("keys %q, want %q", got, want)
		}
	})
}
