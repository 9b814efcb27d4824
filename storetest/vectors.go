// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/vector"
)

// testVectors plays examples of algorithms that textbooks and articles compute by hand.
func testVectors(t *testing.T, b *bench) {
	for _, v := range []vector.Vector{
		newVector("a log, 5 in 10 s, a request every second", "5/10s sliding-log",
			step{at: 0, times: 5, every: time.Second, allowed: 5},
			step{at: 5 * time.Second, times: 5, every: time.Second, retry: time.Second},
			step{at: 10 * time.Second, times: 5, every: time.Second, allowed: 5},
			step{at: 15 * time.Second, times: 5, every: time.Second, retry: time.Second}),
		newVector("a log of 1,000 in a minute takes 1,000 of 1,001", "1000/min sliding-log",
			step{times: 1001, allowed: 1000, retry: time.Minute}),
		newVector("a log of 5 in a minute at 0, 10, 20, 30, 40, 50 and 70 s", "5/min sliding-log",
			step{times: 5, every: 10 * time.Second, allowed: 5},
			step{at: 50 * time.Second, retry: 10 * time.Second},
			step{at: 70 * time.Second, allowed: 1, left: 1}),
		newVector("a log of 2 in a minute that counts denials at 12, 24, 36 and 85 s", "2/min sliding-log count-denied",
			step{at: 12 * time.Second, allowed: 1, left: 1},
			step{at: 24 * time.Second, allowed: 1},
			step{at: 36 * time.Second, retry: 48 * time.Second},
			step{at: 85 * time.Second, allowed: 1}),
		newVector("a window of the clock, 10 at 10:00:59 and 10 at 10:01:00", "10/min fixed-window",
			step{at: 59 * time.Second, times: 11, allowed: 10, retry: time.Second},
			step{at: 60 * time.Second, times: 11, allowed: 10, retry: time.Minute}),
		newVector("a window that a request opens at 10:00:30 runs to 10:01:30", "10/min fixed-window anchor first",
			step{at: 30 * time.Second, times: 10, allowed: 10},
			step{at: 60 * time.Second, retry: 30 * time.Second},
			step{at: 89 * time.Second, retry: time.Second},
			step{at: 90 * time.Second, times: 10, allowed: 10}),
		newVector("84×0.75+36 = 99 of 100: one more passes, and no other", "100/min sliding-counter",
			step{at: 30 * time.Second, cost: 84, allowed: 1, left: 16},
			step{at: 75 * time.Second, cost: 36, allowed: 1, left: 1},
			step{at: 75 * time.Second, allowed: 1},
			step{at: 75 * time.Second, retry: time.Microsecond}),
		newVector("9×0.75+5 = 11.75 and 9×0.5+5 = 9.5 of 10", "10/min sliding-counter debt 10",
			step{at: 30 * time.Second, cost: 9, allowed: 1, left: 1},
			step{at: 75 * time.Second, op: sluice.OpCharge, cost: 5, allowed: 1, spent: 5},
			step{at: 75 * time.Second, retry: 11666667 * time.Microsecond},
			step{at: 90 * time.Second, allowed: 1}),
		newVector("9×0.75+5 and 9×0.5+5 with the request itself among the 5", "10/min sliding-counter debt 10",
			step{at: 30 * time.Second, cost: 9, allowed: 1, left: 1},
			step{at: 75 * time.Second, op: sluice.OpCharge, cost: 4, allowed: 1, spent: 4},
			step{at: 75 * time.Second, retry: 5000001 * time.Microsecond},
			step{at: 90 * time.Second, allowed: 1, left: 1}),
		newVector("Xu's 5×0.7+3 = 6.5 of 7 passes", "7/min sliding-counter",
			step{at: 30 * time.Second, cost: 5, allowed: 1, left: 2},
			step{at: 78 * time.Second, cost: 3, allowed: 1, left: 1},
			step{at: 78 * time.Second, allowed: 1},
			step{at: 78 * time.Second, retry: 6000001 * time.Microsecond}),
		newVector("a counter that is pre-filled lets no burst through at the start", "100/min sliding-counter pre-filled",
			step{retry: time.Microsecond},
			step{at: time.Microsecond, allowed: 1},
			step{at: time.Microsecond, retry: 600 * time.Millisecond}),
		newVector("partners: 500 in an hour at a steady pace, and 800 at once then", "500/h burst 800",
			step{times: 500, every: 7200 * time.Millisecond, allowed: 500, left: 799},
			step{at: time.Hour, times: 801, allowed: 800, retry: 7200 * time.Millisecond}),
		newVector("a skill: of 5 presses in a second one counts", "1/5s",
			step{times: 5, every: 200 * time.Millisecond, allowed: 1, retry: 4200 * time.Millisecond}),
		newVector("posts: 5 at once, and one more 2 min later", "5/10min",
			step{times: 6, allowed: 5, retry: 2 * time.Minute},
			step{at: 2 * time.Minute, times: 2, allowed: 1, retry: 2 * time.Minute}),
		newVector("fraud: the third card in 10 min is one too many", "2/10min sliding-log",
			step{allowed: 1, left: 1},
			step{at: 4 * time.Minute, allowed: 1},
			step{at: 9 * time.Minute, retry: time.Minute}),
		newVector("video: of 100 MB a minute 60 pass, no other 60, but 40", "100MB/min fixed-window",
			step{cost: 60_000_000, allowed: 1, left: 40_000_000},
			step{cost: 60_000_000, left: 40_000_000, retry: time.Minute},
			step{cost: 40_000_000, allowed: 1},
			step{cost: 1, retry: time.Minute}),
	} {
		play(t, b, "vectors", v)
	}
}

// step is a [vector.Step] of a vector.
type step struct {
	at, every, retry                  time.Duration
	op                                sluice.Op
	cost, times, allowed, spent, left int64
}

// newVector returns steps under a limit; a cost of 0 is 1.
func newVector(name, limit string, steps ...step) vector.Vector {
	v := vector.Vector{Name: name, Limits: []sluice.Limit{sluice.MustParseLimit(limit)}}
	for _, s := range steps {
		v.Steps = append(v.Steps, vector.Step{
			At: s.at, Op: s.op, Cost: max(s.cost, 1), Times: s.times, Every: s.every,
			Allowed: s.allowed, Spent: s.spent, Remaining: s.left, RetryAfter: s.retry,
		})
	}
	return v
}
