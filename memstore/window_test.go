// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestChangedWindowsEqualModel changes one limit among fixed windows whose states are words,
// words of many units and slots, among counters and intervals whose states have few units or
// many, and other forms, while the clock runs in either direction
// and snapshots are restored. A Store must decide as a map of states.
func TestChangedWindowsEqualModel(t *testing.T) {
	t.Parallel()
	for i, texts := range [][]string{
		{"10/s fixed-window", "65535/s fixed-window", "65536/s fixed-window", "70000/s fixed-window debt 30", "8589934591/s fixed-window", "8589934592/s fixed-window"},
		{"65536/s fixed-window", "12/s fixed-window count-denied", "9/s fixed-window", "9/s fixed-window anchor first", "20/s sliding-counter"},
		{"8/300ms fixed-window debt 65530", "65537/300ms fixed-window", "8/s fixed-window debt 65530", "9/2s sliding-log"},
		{"268435455/s sliding-counter", "268435456/s sliding-counter", "10/s sliding-counter", "900000000/s sliding-counter strict", "9/2s sliding-log"},
		{"268435456/s sliding-counter count-denied", "268435455/s sliding-counter debt 5", "70000/s fixed-window"},
		{"100000000/s burst 268435456 interval-refill debt 9"},
		{"65000/s fixed-window anchor first debt 535", "65000/s fixed-window anchor first debt 536", "70000/s fixed-window anchor first"},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(i, " seed ", seed), func(t *testing.T) {
				t.Parallel()
				changedWindows(t, texts, rand.New(rand.NewPCG(seed, uint64(i))))
			})
		}
	}
}

func changedWindows(t *testing.T, texts []string, rnd *rand.Rand) {
	plans := make([]*sluice.Plan, len(texts))
	for i, text := range texts {
		plans[i] = testkit.Plan(t, "s", "n: "+text)
	}
	ops := []sluice.Op{
		sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpTakeUpTo, sluice.OpReserve,
		sluice.OpReset, sluice.OpAdd, sluice.OpConvert,
	}
	clock := testkit.NewClock()
	store := memstore.New(memstore.Options{Now: clock.Now})
	var took memoryOfTakes
	m := newModel()
	p := plans[0]
	for step := range testkit.Steps(1500, 15_000) {
		if rnd.IntN(12) == 0 {
			p = plans[rnd.IntN(len(plans))]
		}
		key := fmt.Sprint(rnd.IntN(3))
		req := testkit.Request(p, key, costOf(rnd, p.Term(0)))
		switch req.Op = ops[rnd.IntN(len(ops))]; req.Op {
		case sluice.OpReserve:
			req.MaxWait = time.Duration(rnd.IntN(3000)) * time.Millisecond
		case sluice.OpRefund:
			req.At = took.any(rnd, clock)
		case sluice.OpReset:
			if rnd.IntN(8) > 0 {
				continue
			}
		}
		want := m.take(req, clock.Micros())
		var got sluice.Decision
		if req.Op == sluice.OpTake && rnd.IntN(2) == 0 {
			lim, err := sluice.New(store, "s", p.Term(0).Limit)
			if err != nil {
				t.Fatal(err)
			}
			if got, err = lim.Take(t.Context(), key, req.Cost); err != nil {
				t.Fatal(err)
			}
		} else {
			got = testkit.Take(t, store, req)
		}
		if got != want {
			t.Fatalf("step %d: %v of %d under %v: got %+v, want %+v", step, req.Op, req.Cost, p.Term(0).Limit, got, want)
		}
		if got.Allowed && got.Spent > 0 {
			took = append(took, got.At)
		}
		switch rnd.IntN(60) {
		case 0:
			clock.Advance(time.Duration(rnd.Int64N(int64(3 * time.Second))))
		case 1, 2: // states that are idle before the clock steps back may have been dropped or not
			if !m.forgetIdle(clock.Micros()) {
				continue
			}
			store = restored(t, store, clock)
			clock.Advance(-time.Duration(rnd.Int64N(int64([]time.Duration{time.Millisecond, time.Second, 2 * time.Hour}[rnd.IntN(3)]))))
		default:
			clock.Advance(time.Duration(rnd.Int64N(int64(30 * time.Millisecond))))
		}
	}
}

// restored returns a Store with the live states of another.
func restored(t *testing.T, s *memstore.Store, clock *testkit.Clock) *memstore.Store {
	t.Helper()
	var b bytes.Buffer
	if err := s.Snapshot(&b); err != nil {
		t.Fatal(err)
	}
	s = memstore.New(memstore.Options{Now: clock.Now})
	if err := s.Restore(&b); err != nil {
		t.Fatal(err)
	}
	return s
}

// costOf draws a cost, now and then one that leaves a few units more or less than 2^16.
func costOf(rnd *rand.Rand, t *sluice.Term) int64 {
	switch rnd.IntN(8) {
	case 0:
		return rnd.Int64N(1 + t.Quota)
	case 1:
		return rnd.Int64N(2 * t.Quota)
	case 2:
		return min(t.Quota, 65_520+rnd.Int64N(32))
	case 3:
		return 0
	}
	return 1 + rnd.Int64N(3)
}

type memoryOfTakes []sluice.Instant

// any returns one of the last receipts.
func (m memoryOfTakes) any(rnd *rand.Rand, clock *testkit.Clock) sluice.Instant {
	if len(m) == 0 {
		return sluice.InstantOf(clock.Now())
	}
	return m[max(len(m)-1-rnd.IntN(8), 0)]
}

// forgetIdle drops the states that are idle at an instant. It reports whether all have been
// for a second, in which a Store may keep them.
func (m *model) forgetIdle(now int64) bool {
	for _, states := range m.states {
		if slices.ContainsFunc(states, func(s algo.State) bool { return s.Idle <= now && s.Idle > now-1e6 }) {
			return false
		}
	}
	for name, states := range m.states {
		m.states[name] = slices.DeleteFunc(states, func(s algo.State) bool { return s.Idle <= now })
	}
	return true
}
