// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package load_test

import (
	"testing"

	"github.com/sluicegate/sluice/bench/load"
)

func TestDistinct(t *testing.T) {
	keys := load.Distinct(99_990, 20)
	seen := make(map[string]bool)
	for i := range keys.Len() {
		seen[keys.At(i)] = true
	}
	if len(seen) != 20 || !seen["user:00099990"] || !seen["user:00100009"] {
		t.Errorf("got %v, want user:00099990 to user:00100009", seen)
	}
}

// share counts how often each key is drawn.
func share(k load.Keys) map[string]int {
	n := make(map[string]int)
	for i := range k.Len() {
		n[k.At(i)]++
	}
	return n
}

func TestDraws(t *testing.T) {
	const keys, draws = 100, 100_000
	cases := []struct {
		name      string
		draw      func(keys, n, stream int) load.Keys
		low, high int // of the draws of key 0
	}{
		{"uniform", load.Uniform, 800, 1200},
		{"zipf", load.Zipf, 20_000, 30_000}, // 1/Σ1/i^1.1 is 0.24
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := share(c.draw(keys, draws, 0))
			if len(n) != keys {
				t.Errorf("got %d keys, want %d", len(n), keys)
			}
			if got := n["user:00000000"]; got < c.low || got > c.high {
				t.Errorf("got key 0 %d times, want %d to %d", got, c.low, c.high)
			}
			stream, again, other := c.draw(keys, draws, 1), c.draw(keys, draws, 1), c.draw(keys, draws, 0)
			if stream != again {
				t.Error("one stream differs between calls")
			}
			if stream == other {
				t.Error("two streams are the same")
			}
		})
	}
}

func TestLoads(t *testing.T) {
	names := make(map[string]bool)
	for _, l := range load.All() {
		if names[l.Name] {
			t.Errorf("two loads of the name %q", l.Name)
		}
		names[l.Name] = true
		warm := share(l.Warm())
		drawn := l.Keys(0)
		for i := range min(drawn.Len(), 10_000) {
			if warm[drawn.At(i)] != 1 {
				t.Fatalf("%s: %s is drawn, but warmed %d times", l.Name, drawn.At(i), warm[drawn.At(i)])
			}
		}
	}
}
