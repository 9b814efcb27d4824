// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestHistogramMergesBehindReservation: a full histogram in which units are reserved ahead
// stays small while another form of its name is used.
func TestHistogramMergesBehindReservation(t *testing.T) {
	histogram, bucket := testkit.Plan(t, "s", "n: 1000/h sliding-histogram").Term(0), testkit.Plan(t, "s", "n: 1000000/s").Term(0)
	now := int64(1_790_000_000_000_000)
	var states []algo.State
	do := func(op sluice.Op, term *sluice.Term, cost int64) sluice.Decision {
		it := algo.Item{Term: term, Cost: cost}
		it.Pick(states)
		req := sluice.Request{Op: op, Charge: sluice.Charge{Cost: cost}, MaxWait: 0}
		if op == sluice.OpReserve {
			req.MaxWait = time.Hour
		}
		items := []algo.Item{it}
		d := algo.Decide(&req, items, now)
		states = items[0].Keep(nil)
		return d
	}
	for range 1000 {
		now += 1000
		if !do(sluice.OpTake, histogram, 1).Allowed {
			t.Fatal("it is full too soon")
		}
	}
	if d := do(sluice.OpReserve, histogram, 1); !d.Allowed || d.Delay == 0 {
		t.Fatalf("%+v", d)
	}
	for range 60_000 {
		now += 1000
		do(sluice.OpTake, bucket, 1)
	}
	for i := range states {
		if s := &states[i]; s.Len > 1000 {
			t.Errorf("the ring of %v has %d words", s.By.Limit, s.Len)
		}
	}
}
