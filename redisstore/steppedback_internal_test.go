// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestTakesBeforeTheBalanceBegan: takes also count after the clock has stepped back behind
// the start of a balance.
func TestTakesBeforeTheBalanceBegan(t *testing.T) {
	const burst, later = 13, 38_943
	var now int64 = 1_029_640_284_028_359
	server := redistest.Shared(t, redistest.Redis(t))
	s := bare(server.Client(t))
	s.inject = func() int64 { return now }
	l := testkit.Limiter(t, s, "scope", "82/s burst 13 leaky-bucket delay-after 3")
	take := func(op sluice.Op, cost int64) bool {
		t.Helper()
		req := testkit.Request(l.Plan(), "k", cost)
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
		add[i] = testkit.Request(l.Plan(), "k", 2)
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

// TestDenialBehindAClockStep: a denial does not change a balance, even after the clock has
// stepped back behind its start. An earlier start would make receipts from before it count.
func TestDenialBehindAClockStep(t *testing.T) {
	const hour = 3_600_000_000
	var now int64 = 500_100 * hour
	server := redistest.Shared(t, redistest.Redis(t))
	client := server.Client(t)
	do := func(s *Store, limit string, op sluice.Op, cost int64) sluice.Decision {
		t.Helper()
		s.inject = func() int64 { return now }
		req := testkit.Request(testkit.Limiter(t, s, "scope", limit).Plan(), "k", cost)
		req.Op, req.At = op, sluice.Instant(now)
		d, err := s.Take(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	value := func() string {
		t.Helper()
		keys := slices.DeleteFunc(redistest.Keys(t, client), func(key string) bool { return !strings.HasPrefix(key, "sluice") })
		if len(keys) != 1 {
			t.Fatalf("keys %q; want one", keys)
		}
		text := redistest.Do(t, client, "GET", keys[0])
		return text
	}
	const limit = "24/day burst 2"
	both := bare(client)
	do(both, "48/day burst 2", sluice.OpPeek, 1) // another limit that may have receipts
	do(both, limit, sluice.OpTake, 1)
	do(both, limit, sluice.OpRefund, 1)
	before := value()
	now -= 100 * hour
	if d := do(bare(client), limit, sluice.OpTake, 3); d.Allowed || !d.TooLarge {
		t.Fatalf("got %+v, want a denial", d)
	}
	if after := value(); after != before {
		t.Errorf("after a denial %q is stored, want %q", after, before)
	}
}
