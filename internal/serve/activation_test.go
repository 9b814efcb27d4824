// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"testing"
	"time"
)

// TestTurns: a change of the configuration lets others run when one of them waits at two
// glances, and when its turn is over.
func TestTurns(t *testing.T) {
	const often = glance / 4
	for _, c := range []struct {
		name  string
		waits func(glances int) bool
		want  time.Duration
	}{
		{"nobody waits", func(int) bool { return false }, turn},
		{"one that waits", func(int) bool { return true }, 2 * glance},
		{"one that has been waiting", func(n int) bool { return n > 3 }, 5 * glance},
		{"others run what waits", func(n int) bool { return n%2 == 0 }, turn},
	} {
		t.Run(c.name, func(t *testing.T) {
			var turns turns
			start, glances := time.Unix(0, 0), 0
			turns.begin(start)
			for range 2 {
				now := start.Add(often)
				for ; !turns.over(now, func() bool { glances++; return c.waits(glances) }); now = now.Add(often) {
					if now.Sub(start) > turn {
						t.Fatal("others never run")
					}
				}
				if got := now.Sub(start); got != c.want {
					t.Errorf("got %v, want %v", got, c.want)
				}
				turns.begin(now)
				start, glances = now, 0
			}
		})
	}
}
