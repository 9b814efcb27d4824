// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/storekit"
)

// TestTakesBeforeTheBalanceBegan: where the clock has stepped back behind the instant since
// when a balance is one of its limit alone, takes count as ever. They were allowed, and
// counted nothing.
func TestTakesBeforeTheBalanceBegan(t *testing.T) {
	const burst, later = 13, 38_943
	var now int64 = 1_029_640_284_028_359
	server := redistest.Start(t, redistest.Redis(t))
	s := bare(server.Client(t))
	s.inject = func() int64 { return now }
	l := storekit.Limiter(t, s, "scope", "82/s burst 13 leaky-bucket delay-after 3")
	take := func(op sluice.Op, cost int64) bool {
		t.Helper()
		req := storekit.Request(l.Plan(), "k", cost)
		req.Op = op
		d, err := s.Take(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return d.Allowed
	}
	now += 200_000
	take(sluice.OpTake, 12)
	now -= 200_000 - later
	add := make([]sluice.Request, 84)
	for i := range add {
		add[i] = storekit.Request(l.Plan(), "k", 2)
		add[i].Op = sluice.OpAdd
	}
	if err := s.TakeBatch(t.Context(), add, make([]sluice.Result, len(add))); err != nil {
		t.Fatal(err)
	}
	now -= later
	allowed := 0
	for range 4 * burst {
		if take(sluice.OpTake, 1) {
			allowed++
		}
	}
	if allowed != burst {
		t.Errorf("%d allowed at one instant, want %d", allowed, burst)
	}
}
