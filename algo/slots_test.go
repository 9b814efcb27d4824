// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// holders is one key of slots.
type holders struct {
	state algo.State
	limit sluice.SlotLimit
}

func (k *holders) do(now int64, op sluice.SlotOp, owner uint64, cost int64) sluice.SlotDecision {
	req := sluice.SlotRequest{Op: op, Limit: k.limit, Owner: "o", Cost: cost}
	d, _ := algo.DecideSlot(&req, owner, &k.state, now)
	return d
}

func slots(n, ttl int64) *holders {
	return &holders{limit: sluice.SlotLimit{Name: "slots", Cap: n, TTL: dur(ttl)}}
}

func TestSlots(t *testing.T) {
	type step struct {
		at    int64
		op    sluice.SlotOp
		owner uint64
		cost  int64
		want  sluice.SlotDecision
	}
	const acquire, renew, release, peek = sluice.SlotAcquire, sluice.SlotRenew, sluice.SlotRelease, sluice.SlotPeek
	for _, c := range []struct {
		name  string
		n     int64
		steps []step
	}{
		{"two of two", 2, []step{
			{0, acquire, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1, Free: 1}},
			{1 * s, acquire, 2, 1, sluice.SlotDecision{Allowed: true, Held: 2}},
			{2 * s, acquire, 3, 1, sluice.SlotDecision{Held: 2, RetryAfter: 8 * time.Second}},
			{3 * s, release, 2, 1, sluice.SlotDecision{Allowed: true, Held: 1, Free: 1}},
			{4 * s, acquire, 3, 1, sluice.SlotDecision{Allowed: true, Held: 2}},
		}},
		{"a lease expires", 1, []step{
			{0, acquire, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1}},
			{10*s - 1, acquire, 2, 1, sluice.SlotDecision{Held: 1, RetryAfter: time.Microsecond}},
			{10 * s, acquire, 2, 1, sluice.SlotDecision{Allowed: true, Held: 1}},
			{10 * s, renew, 1, 1, sluice.SlotDecision{Held: 1}},
			{10 * s, release, 1, 1, sluice.SlotDecision{Held: 1}},
		}},
		{"a lease is renewed", 1, []step{
			{0, acquire, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1}},
			{9 * s, renew, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1}},
			{18 * s, acquire, 2, 1, sluice.SlotDecision{Held: 1, RetryAfter: time.Second}},
			{18 * s, acquire, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1}},
			{27 * s, acquire, 2, 1, sluice.SlotDecision{Held: 1, RetryAfter: time.Second}},
		}},
		{"weights", 5, []step{
			{0, acquire, 1, 2, sluice.SlotDecision{Allowed: true, Held: 2, Free: 3}},
			{1 * s, acquire, 2, 2, sluice.SlotDecision{Allowed: true, Held: 4, Free: 1}},
			{2 * s, acquire, 3, 2, sluice.SlotDecision{Held: 4, Free: 1, RetryAfter: 8 * time.Second}},
			{2 * s, acquire, 3, 4, sluice.SlotDecision{Held: 4, Free: 1, RetryAfter: 9 * time.Second}},
			{2 * s, acquire, 3, 6, sluice.SlotDecision{Held: 4, Free: 1, TooLarge: true, RetryAfter: sluice.MaxRetryAfter}},
			{2 * s, acquire, 1, 5, sluice.SlotDecision{Allowed: true, Held: 4, Free: 1}}, // holds 2, renewed
			{12 * s, acquire, 3, 5, sluice.SlotDecision{Allowed: true, Held: 5}},
		}},
		{"a look changes nothing", 2, []step{
			{0, peek, 1, 1, sluice.SlotDecision{Allowed: true, Free: 2}},
			{0, acquire, 1, 1, sluice.SlotDecision{Allowed: true, Held: 1, Free: 1}},
			{1 * s, peek, 2, 1, sluice.SlotDecision{Allowed: true, Held: 1, Free: 1}},
			{1 * s, peek, 2, 2, sluice.SlotDecision{Held: 1, Free: 1, RetryAfter: 9 * time.Second}},
			{2 * s, peek, 1, 2, sluice.SlotDecision{Allowed: true, Held: 1, Free: 1}}, // holds already, and is not renewed
			{10 * s, peek, 1, 1, sluice.SlotDecision{Allowed: true, Free: 2}},
		}},
		{"nothing to release", 1, []step{{0, release, 1, 1, sluice.SlotDecision{Free: 1}}, {0, renew, 1, 1, sluice.SlotDecision{Free: 1}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := slots(c.n, 10*s)
			for i, st := range c.steps {
				if got := k.do(origin+st.at, st.op, st.owner, st.cost); got != st.want {
					t.Errorf("step %d: got %+v, want %+v", i+1, got, st.want)
				}
			}
		})
	}
}

// TestSlotsEqualOracle compares with a map of the owners, their units and the ends.
func TestSlotsEqualOracle(t *testing.T) {
	type held struct{ until, units int64 }
	rapid.Check(t, func(t *rapid.T) {
		k := slots(rapid.Int64Range(1, 6).Draw(t, "cap"), s)
		leases := make(map[uint64]held)
		now := origin
		for range 60 {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, s/3), rapid.SampledFrom([]int64{s - 1, s, 2 * s})).Draw(t, "gap")
			op := rapid.SampledFrom([]sluice.SlotOp{sluice.SlotAcquire, sluice.SlotAcquire, sluice.SlotRenew, sluice.SlotRelease, sluice.SlotPeek}).Draw(t, "op")
			owner, cost := rapid.Uint64Range(1, 8).Draw(t, "owner"), rapid.Int64Range(1, 4).Draw(t, "cost")
			var sum int64
			for o, l := range leases {
				if l.until <= now {
					delete(leases, o)
					continue
				}
				sum += l.units
			}
			mine, holds := leases[owner]
			want := sluice.SlotDecision{Allowed: holds}
			takes := op == sluice.SlotAcquire || op == sluice.SlotPeek
			switch {
			case op == sluice.SlotRelease:
				delete(leases, owner)
				sum -= mine.units
			case holds && op == sluice.SlotPeek:
			case holds:
				leases[owner] = held{now + s, mine.units}
			case op == sluice.SlotPeek && sum+cost <= k.limit.Cap:
				want.Allowed = true
			case op == sluice.SlotAcquire && sum+cost <= k.limit.Cap:
				want.Allowed = true
				leases[owner] = held{now + s, cost}
				sum += cost
			case takes && cost > k.limit.Cap:
				want.TooLarge, want.RetryAfter = true, sluice.MaxRetryAfter
			case takes:
				first := int64(math.MaxInt64)
				for _, end := range leases {
					var left int64
					for _, l := range leases {
						if l.until > end.until {
							left += l.units
						}
					}
					if left+cost <= k.limit.Cap {
						first = min(first, end.until)
					}
				}
				want.RetryAfter = dur(first - now)
			}
			want.Held, want.Free = sum, k.limit.Cap-sum
			if got := k.do(now, op, owner, cost); got != want {
				t.Fatalf("%v %d by %d at %d: got %+v, want %+v", op, cost, owner, now-origin, got, want)
			}
			if len(leases) == 0 != k.state.Zero() {
				t.Fatalf("%d leases, and the state is %+v", len(leases), k.state)
			}
		}
	})
}

func TestSlotsWhenTheClockStepsBack(t *testing.T) {
	k := slots(2, s)
	k.do(origin, sluice.SlotAcquire, 1, 1)
	k.do(origin, sluice.SlotAcquire, 2, 1)
	// The holder may be alive: no other owner gets in, for at most a TTL.
	back := origin - sluice.MaxWindow.Microseconds()
	if d := k.do(back, sluice.SlotAcquire, 3, 1); d.Allowed || d.Held != 2 || d.RetryAfter != time.Second {
		t.Errorf("got %+v, want a denial for the TTL", d)
	}
	if d := k.do(back+s, sluice.SlotAcquire, 3, 2); !d.Allowed {
		t.Errorf("a TTL later: got %+v", d)
	}
}

func TestSlotsOfASmallerLimit(t *testing.T) {
	k := slots(4, s)
	k.do(origin, sluice.SlotAcquire, 1, 4)
	k.limit.Cap = 2
	if d, want := k.do(origin, sluice.SlotAcquire, 2, 1), (sluice.SlotDecision{Held: 4, RetryAfter: time.Second}); d != want {
		t.Errorf("got %+v, want %+v", d, want)
	}
}
