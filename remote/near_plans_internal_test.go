// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// leasing leases the given plans, and no other.
func leasing(terms sluice.LeaseTerms, plans ...*sluice.Plan) func(*sluice.Plan) (sluice.LeaseTerms, bool) {
	return func(p *sluice.Plan) (sluice.LeaseTerms, bool) {
		return terms, slices.Contains(plans, p)
	}
}

// TestLeasedAndNot: of two plans of one scope and key one is leased. The store would make each
// denial from memory at that instant too, and no more than both allow is ever in use.
func TestLeasedAndNot(t *testing.T) {
	for _, texts := range [][2]string{
		{"x: 20/s sliding-log", "x: 20/s sliding-log"},
		{"x: 20/s sliding-log", "x: 30/s sliding-log"},
		{"x: 20/s sliding-log", "y: 10/s sliding-log"},
		{"x: 50/s burst 20", "x: 50/s burst 20"},
		{"x: 20/s fixed-window", "x: 10/s fixed-window"},
	} {
		t.Run(texts[0]+" and "+texts[1], func(t *testing.T) {
			answered, decided := 0, uint64(0)
			for seed := range uint64(testkit.Steps(4, 40)) {
				rnd := rand.New(rand.NewPCG(seed, 3))
				leased, other := testkit.Plan(t, "both", texts[0]), testkit.Plan(t, "both", texts[1])
				w := newCached(Options{Lease: leasing(sluice.LeaseTerms{TTL: 10 * time.Millisecond, Units: 5}, leased)})
				asked := map[*sluice.Plan]*sluice.Plan{other: other}
				pi, err := w.cache.infoOf(leased)
				if err != nil {
					t.Fatal(err)
				}
				asked[leased] = pi.plan
				var receipts []sluice.Request
				for range 400 {
					plan := []*sluice.Plan{leased, leased, leased, other}[rnd.IntN(4)]
					req := testkit.Request(plan, "k", 1+rnd.Int64N(4)/3)
					switch rnd.IntN(12) {
					case 0:
						req.Op = sluice.OpCharge
					case 1:
						if n := len(receipts); n > 0 {
							req, receipts = receipts[n-1], receipts[:n-1]
						}
					case 2:
						w.clock.Advance(time.Duration(rnd.Int64N(int64(60 * time.Millisecond))))
					case 3:
						req.Slot = slotOf("k", "o", 100)
					}
					w.clock.Advance(time.Duration(rnd.Int64N(int64(time.Millisecond))))
					before := w.cache.denials().Answered
					want := testkit.Take(t, w.store.Store, sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: asked[req.Plan], Key: "k", Cost: req.Cost}})
					d := testkit.Take(t, w.cache, req)
					if w.cache.denials().Answered > before {
						answered++
						if want.Allowed || d.RetryAfter > want.RetryAfter+time.Microsecond {
							t.Fatalf("seed %d: %d of %v denied from memory:\n got %+v\nwant %+v", seed, req.Cost, req.Plan.Term(0).Limit, d, want)
						}
					}
					if d.Allowed && d.Spent > 0 && req.Op == sluice.OpTake {
						receipts = append(receipts, sluice.Request{Op: sluice.OpRefund, Charge: req.Charge, At: d.At})
					}
				}
				decided += w.cache.leases().Allowed
			}
			if answered == 0 || decided == 0 {
				t.Errorf("%d answered from memory, %d from units in hand: this shows nothing", answered, decided)
			}
		})
	}
}

// TestPlansThatShareALimit: a soft limit and a grace limit beside one hard limit are two plans
// of a scope. A client that uses both is denied from memory, as neither plan changes a limit
// of the other.
func TestPlansThatShareALimit(t *testing.T) {
	soft, grace := testkit.Plan(t, "api", "hard: 100/h", "soft: 10/h"), testkit.Plan(t, "api", "hard: 100/h", "grace: 5/h")
	changed := testkit.Plan(t, "api", "hard: 50/h", "soft: 10/h")
	w := newCached(Options{Lease: leasing(sluice.LeaseTerms{TTL: time.Millisecond, Units: 2}, soft, grace)})
	press := func() (denied int) {
		for _, p := range []*sluice.Plan{soft, grace} {
			req := testkit.Request(p, "k", 1)
			req.Outcomes = new(make(sluice.Outcomes, 2))
			if d := testkit.Take(t, w.cache, req); !d.Allowed {
				denied++
				if o := *req.Outcomes; o[0].Allowed == o[1].Allowed || o[1].RetryAfter != d.RetryAfter {
					t.Fatalf("outcomes %+v of %+v", o, d)
				}
			}
		}
		w.clock.Advance(100 * time.Microsecond)
		return denied
	}
	for press() < 2 {
	}
	before := w.store.Asked()
	for range 1000 {
		if press() != 2 {
			t.Fatal("allowed, want both denied")
		}
	}
	if asked := w.store.Asked() - before; asked > 2 {
		t.Errorf("the store was asked %d times about what is denied", asked)
	}
	testkit.Take(t, w.cache, testkit.Request(changed, "k", 1))
	before = w.store.Asked()
	press()
	if w.store.Asked() == before {
		t.Error("after a take under a changed limit the store was not asked")
	}
}

// TestSlotWithUnits: a remembered denial answers a take with a slot too. Otherwise the store
// is asked for both unchanged, under the stricter limits.
func TestSlotWithUnits(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprint("leased ", leased), func(t *testing.T) {
			plan := testkit.Plan(t, "api", "8/s sliding-log")
			w := newCached(Options{Lease: leasing(sluice.LeaseTerms{TTL: 20 * time.Millisecond, Units: 4}, map[bool][]*sluice.Plan{true: {plan}}[leased]...)})
			slots := &slotted{Store: w.store.Store, held: map[string]int64{}}
			w.store.Store = slots
			var got sluice.Request
			w.store.Before = func(_ context.Context, req sluice.Request) error {
				got = req
				return nil
			}
			if leased {
				for range 3 {
					testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
				}
			}
			take := func(most int64) (sluice.Decision, *sluice.Slot) {
				req := testkit.Request(plan, "k", 1)
				req.Slot = slotOf("k", "o", most)
				req.Slot.Decision = sluice.SlotDecision{Allowed: true, Free: 99} // left over
				return testkit.Take(t, w.cache, req), req.Slot
			}
			under, err := w.cache.infoOf(plan)
			if err != nil {
				t.Fatal(err)
			}
			if d, slot := take(1); !d.Allowed || d.Spent != 1 || !slot.Decision.Allowed || got.Op != sluice.OpTake || got.Cost != 1 || got.Plan != under.plan || (got.Plan == plan) == leased {
				t.Errorf("%+v, slot %+v, asked as %+v", d, slot.Decision, got)
			}
			before := w.store.Asked()
			for range 2 {
				if d, slot := take(1); d.Allowed || slot.Decision.RetryAfter == 0 {
					t.Errorf("without a slot: %+v, %+v", d, slot.Decision)
				}
			}
			if asked := w.store.Asked() - before; asked != 2 {
				t.Errorf("what a slot denied was asked for %d times, want 2", asked)
			}
			peek := testkit.Request(plan, "k", 1)
			peek.Op, peek.Slot = sluice.OpPeek, slotOf("k", "o", 1)
			peek.Slot.Op = sluice.SlotPeek
			if d := testkit.Take(t, w.cache, peek); d.Allowed || peek.Slot.Decision.RetryAfter == 0 {
				t.Errorf("a peek at units and a slot: %+v, %+v", d, peek.Slot.Decision)
			}
			for testkit.Take(t, w.cache, testkit.Request(plan, "k", 1)).Allowed {
			}
			testkit.Take(t, w.cache, testkit.Request(plan, "k", 1))
			before = w.store.Asked()
			if d, slot := take(9); d.Allowed || d.RetryAfter == 0 || slot.Decision != (sluice.SlotDecision{}) || w.store.Asked() != before {
				t.Errorf("known to be denied: %+v, %+v, asked %d times", d, slot.Decision, w.store.Asked()-before)
			}
		})
	}
}

// TestSlotTeaches: units that were denied to a take with a slot are then denied from memory.
func TestSlotTeaches(t *testing.T) {
	plan := testkit.Plan(t, "api", "2/s sliding-log")
	w := newCached(Options{})
	w.store.Store = &slotted{Store: w.store.Store, held: map[string]int64{}}
	for range 3 {
		req := testkit.Request(plan, "k", 1)
		req.Slot = slotOf("k", "o", 9)
		testkit.Take(t, w.cache, req)
	}
	before := w.store.Asked()
	if d := testkit.Take(t, w.cache, testkit.Request(plan, "k", 1)); d.Allowed || w.store.Asked() != before {
		t.Errorf("%+v, asked %d times", d, w.store.Asked()-before)
	}
}

// TestPlain: a call that bypasses near uses the stricter limits, and does not change the
// caller's charges.
func TestPlain(t *testing.T) {
	leased, other := testkit.Plan(t, "api", "10/s sliding-log"), testkit.Plan(t, "other", "10/s")
	n := newNear(Options{Lease: leasing(sluice.LeaseTerms{TTL: 20 * time.Millisecond}, leased)}, nil)
	more := []sluice.Charge{{Plan: leased, Key: "m"}}
	req := testkit.Request(other, "k", 1)
	req.More = more
	for range 2 { // the second call has nothing left to do
		if err := n.useLeasedPlans(&req); err != nil {
			t.Fatal(err)
		}
		if req.Plan != other || more[0].Plan != leased || req.More[0].Plan.Term(0).Window != 1020*time.Millisecond {
			t.Errorf("%+v, %+v", req, more)
		}
	}
	allocs := testing.AllocsPerRun(100, func() {
		if err := n.useLeasedPlans(&req); err != nil {
			t.Fatal(err)
		}
	})
	if allocs != 0 {
		t.Errorf("%g allocations where nothing is to do", allocs)
	}
}

// TestCannotBeLeased: a plan that should be leased but cannot be is an error of the request,
// at any place in it.
func TestCannotBeLeased(t *testing.T) {
	bad, good := testkit.Plan(t, "api", "10/s leaky-bucket burst 9"), testkit.Plan(t, "good", "10/s sliding-log")
	w := newCached(Options{Lease: always(sluice.LeaseTerms{})})
	for _, req := range []sluice.Request{
		testkit.Request(bad, "k", 1),
		{Charge: sluice.Charge{Plan: good, Key: "k", Cost: 1}, More: []sluice.Charge{{Plan: bad, Key: "k", Cost: 1}}},
	} {
		var invalid *sluice.RequestError
		if _, err := w.cache.Take(t.Context(), req); !errors.As(err, &invalid) || invalid.Field != "Plan" {
			t.Errorf("take: %v, want a RequestError of its plan", err)
		}
		if err := w.cache.useLeasedPlans(&req); !errors.As(err, &invalid) {
			t.Errorf("plain: %v", err)
		}
	}
	if n := w.store.Asked(); n != 0 {
		t.Errorf("the store was asked %d times", n)
	}
}
