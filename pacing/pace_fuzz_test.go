// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// FuzzPace: with any answers, no call waits for longer than MaxRetryAfter, and only a few limits
// are kept.
func FuzzPace(f *testing.F) {
	f.Add(int64(9), `"a";q=10;w=1`, `"a";r=1;t=1`, int64(3), int64(7))
	f.Add(int64(1<<62), `"a";q=0;w=0`, `"a";r=0;t=999999999999999`, int64(0), int64(1<<62))
	f.Add(int64(0), `"a";q=999999999999999;w=999999999999999`, `"b";r=999999999999999;t=1`, int64(1<<62), int64(1))
	f.Fuzz(func(t *testing.T, wait int64, policy, limit string, left, reset int64) {
		const maxHold = time.Minute // the MaxRetryAfter of testBudget
		now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
		b := testBudget(t)
		for _, denied := range []bool{false, true, false} {
			b.spend(now)
			s := Statement{At: now, Denied: denied}
			if denied {
				s.Wait = min(max(time.Duration(wait), 0), sluice.MaxWindow)
			}
			s.Draft11([]string{policy}, []string{limit})
			s.State("x", max(left, 0), time.Duration(max(reset, 0)))
			b.Answered(b.sent, s)
			if len(b.paces) > maxItems {
				t.Fatalf("%d limits are remembered", len(b.paces))
			}
			at, known := b.next(now)
			if !known {
				t.Fatal("waits for an answer, but none is due")
			}
			if at.Sub(now) > maxHold {
				t.Fatalf("waits for %v", at.Sub(now))
			}
			for _, p := range b.paces {
				if p.left < 0 || p.every < 0 || p.span < 0 || len(p.returns) > mostReturns {
					t.Fatalf("got %+v", p)
				}
			}
		}
	})
}
