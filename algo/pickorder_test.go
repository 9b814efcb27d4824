// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestPickInAnyOrder: the first state of a limit of another form does not depend on the order
// of the key's states in a store.
func TestPickInAnyOrder(t *testing.T) {
	now := 500_000*time.Hour.Microseconds() + 40_000_000
	next := testkit.Plan(t, "s", "x: 10/min sliding-log")
	state := func(limit string) algo.State {
		p := testkit.Plan(t, "s", limit)
		items := []algo.Item{{Term: p.Term(0), Cost: 7}}
		req := testkit.Request(p, "k", 7)
		algo.Decide(&req, items, now)
		items[0].State.By = p.Term(0)
		return items[0].State
	}
	limits := []string{"x: 20/min sliding-counter sub-windows 2 whole", "x: 30/min sliding-counter"}
	var waits []time.Duration
	for i := range limits {
		it := algo.Item{Term: next.Term(0), Cost: 5}
		it.Pick([]algo.State{state(limits[i]), state(limits[1-i])})
		req := testkit.Request(next, "k", 5)
		waits = append(waits, algo.Decide(&req, []algo.Item{it}, now+1).RetryAfter)
	}
	if waits[0] != waits[1] {
		t.Errorf("retry after %v or %v", waits[0], waits[1])
	}
}
