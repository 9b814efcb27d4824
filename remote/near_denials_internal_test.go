// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/storetest"
)

// TestConformanceOfNear: a cache decides like a store. Its Remaining may be out of date for
// costs above 1, so the suite runs on a cache that keeps no denial.
func TestConformanceOfNear(t *testing.T) {
	storetest.Test(t, func(_ *testing.T, now func() time.Time) storetest.Harness {
		s := memstore.New(memstore.Options{Now: now})
		w := newNearStore(s, Options{Now: now})
		w.age = 1
		return storetest.Harness{Store: w, Slots: w, Steps: testkit.Steps(4000, 20_000)}
	})
}

func TestAnswersUntilTheCostFits(t *testing.T) {
	for _, c := range []struct {
		limit string
		fits  time.Duration // after the take that spent all units
		asked int64         // calls once the take has been denied
	}{
		{"10/s", 100 * time.Millisecond, 1},
		{"10/s leaky-bucket burst 10 nodelay", 100 * time.Millisecond, 1},
		{"3/s", 333_334 * time.Microsecond, 2},
		{"10/s sliding-log", time.Second, 2},
		{"10/s sliding-histogram", time.Second, 2},
		{"10/s interval-refill", time.Second, 2},
		{"10/s aligned-refill", 876_544 * time.Microsecond, 2},
		{"10/s burst 5 debt 9 next-waits", 900 * time.Millisecond, 2},
		{"10/800ms anchor first fixed-window", 800 * time.Millisecond, 1},
	} {
		t.Run(c.limit, func(t *testing.T) {
			w, p := newCached(Options{}), testkit.Plan(t, "api", c.limit)
			if d := testkit.Take(t, w.cache, testkit.Request(p, "k", p.Term(0).Full)); !d.Allowed || d.Remaining != 0 {
				t.Fatalf("the first take: %+v, want it allowed and nothing left", d)
			}
			step := (c.fits / 50).Truncate(time.Microsecond)
			for at := time.Duration(0); at < c.fits-time.Microsecond; at += step {
				got, want := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)), testkit.Take(t, w.store.Store, testkit.Request(p, "k", 1))
				if got != want {
					t.Fatalf("at %v: got %+v, want %+v", at, got, want)
				}
				if asked := w.store.Asked(); asked != c.asked {
					t.Fatalf("at %v: the store was asked %d times, want %d", at, asked, c.asked)
				}
				w.clock.Advance(step)
			}
			w.clock.Set(testkit.NewClock().Now().Add(c.fits))
			if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)); !d.Allowed {
				t.Errorf("after %v: %+v, want it allowed", c.fits, d)
			}
		})
	}
}

// TestPartsOfMicroseconds: a store counts whole µs, which begin at other moments
// than those of the cache. The last one is left to the store.
func TestPartsOfMicroseconds(t *testing.T) {
	w, p := newCached(Options{}), testkit.Plan(t, "api", "1/10us")
	w.clock.Advance(900)
	testkit.Take(t, w.cache, testkit.Request(p, "k", 1))
	w.clock.Advance(9*time.Microsecond - 1)
	if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)); d.Allowed || w.store.Asked() != 1 {
		t.Errorf("before the last µs: %+v, want it denied from memory", d)
	}
	w.clock.Advance(200)
	if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)); !d.Allowed {
		t.Errorf("in the tenth µs of the store: %+v, want it allowed", d)
	}
}

// TestSavesTheStore: of a key at ten times its limit, the store gets little more than the
// takes that it allows.
func TestSavesTheStore(t *testing.T) {
	for _, c := range []struct {
		limit string
		most  float64 // calls per allowed take
	}{
		{"1000/s", 1.01},
		{"1000/s fixed-window", 1.01},
		{"1000/s sliding-histogram", 1.6},
		{"1000/s sliding-log", 1.6},
	} {
		t.Run(c.limit, func(t *testing.T) {
			w, p := newCached(Options{}), testkit.Plan(t, "api", c.limit)
			allowed := 0
			takes := testkit.Steps(10_000, 100_000)
			for range takes { // in ten seconds, or one
				if testkit.Take(t, w.cache, testkit.Request(p, "hot", 1)).Allowed {
					allowed++
				}
				w.clock.Advance(100 * time.Microsecond)
			}
			asked := w.store.Asked()
			t.Logf("of %d takes %d were allowed, the store was asked %d times", takes, allowed, asked)
			if allowed < takes*9/100 || float64(asked) > c.most*float64(allowed) {
				t.Errorf("%d store calls for %d allowed of %d takes, want at most %g for each", asked, allowed, takes, c.most)
			}
		})
	}
}

func TestLargerCosts(t *testing.T) {
	for _, c := range []struct {
		limit    string
		answered bool
	}{
		{"10/s burst 20", true},
		{"10/s leaky-bucket burst 20", true},
		{"20/s fixed-window", true},
		{"3/s burst 20", false},
		{"20/s sliding-log", false},
	} {
		t.Run(c.limit, func(t *testing.T) {
			w, p := newCached(Options{}), testkit.Plan(t, "api", c.limit)
			testkit.Take(t, w.cache, testkit.Request(p, "k", 17))
			testkit.Take(t, w.cache, testkit.Request(p, "k", 5))
			w.clock.Advance(30 * time.Millisecond)
			before := w.store.Asked()
			for _, cost := range []int64{5, 6, 19, 20, 21, sluice.MaxQuota} {
				got, want := testkit.Take(t, w.cache, testkit.Request(p, "k", cost)), testkit.Take(t, w.store.Store, testkit.Request(p, "k", cost))
				if got != want {
					t.Errorf("cost %d: got %+v, want %+v", cost, got, want)
				}
			}
			if answered := w.store.Asked() == before; answered != c.answered {
				t.Errorf("answered without the store: %v, want %v", answered, c.answered)
			}
			before = w.store.Asked()
			if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 3)); !d.Allowed || w.store.Asked() == before {
				t.Errorf("a smaller cost: %+v, want it allowed by the store", d)
			}
		})
	}
}

// TestForgets: after an operation that may give units back, the next take sees them.
func TestForgets(t *testing.T) {
	w := newCached(Options{})
	narrow, wide := testkit.Plan(t, "api", "x: 2/s sliding-log"), testkit.Plan(t, "api", "x: 5/s sliding-log")
	other := testkit.Plan(t, "other", "2/s")
	of := func(p *sluice.Plan, key string, cost int64) sluice.Charge {
		return sluice.Charge{Plan: p, Key: key, Cost: cost}
	}
	for _, c := range []struct {
		name string
		plan *sluice.Plan
		req  func(sluice.Decision) sluice.Request
	}{
		{"refund", narrow, func(d sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpRefund, Charge: of(narrow, "refund", 1), At: d.At}
		}},
		{"refund of several keys", narrow, func(d sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpRefund, Charge: of(other, "any", 1), More: []sluice.Charge{of(narrow, "refund of several keys", 1)}, At: d.At}
		}},
		{"reset", narrow, func(sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpReset, Charge: of(narrow, "reset", 0)}
		}},
		{"add", narrow, func(sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpAdd, Charge: of(narrow, "add", 1)}
		}},
		{"changed limit", wide, func(sluice.Decision) sluice.Request { return testkit.Request(wide, "changed limit", 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := testkit.Take(t, w.cache, testkit.Request(narrow, c.name, 2))
			testkit.Take(t, w.cache, testkit.Request(narrow, c.name, 1))
			before := w.store.Asked()
			if d := testkit.Take(t, w.cache, testkit.Request(narrow, c.name, 1)); d.Allowed || w.store.Asked() != before {
				t.Fatalf("got %+v, want a denial without the store", d)
			}
			testkit.Take(t, w.cache, c.req(d))
			if d := testkit.Take(t, w.cache, testkit.Request(c.plan, c.name, 1)); !d.Allowed {
				t.Errorf("afterwards: %+v, want it allowed", d)
			}
		})
	}
}

// TestChangesElsewhereAreSeenInTime: units that another process gives back are seen after
// MaxAge at the latest.
func TestChangesElsewhereAreSeenInTime(t *testing.T) {
	for _, c := range []struct{ age time.Duration }{
		{bounds.MaxDenialAge}, {50 * time.Millisecond},
	} {
		t.Run(c.age.String(), func(t *testing.T) {
			w, p := newCached(Options{}), testkit.Plan(t, "api", "2/h")
			w.cache.age = int64(c.age)
			testkit.Take(t, w.cache, testkit.Request(p, "k", 2))
			testkit.Take(t, w.cache, testkit.Request(p, "k", 1))
			testkit.Take(t, w.store, sluice.Request{Op: sluice.OpReset, Charge: sluice.Charge{Plan: p, Key: "k"}})
			w.clock.Advance(c.age - 1)
			if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)); d.Allowed {
				t.Errorf("before %v: %+v, want it denied from memory", c.age, d)
			}
			w.clock.Advance(1)
			if d := testkit.Take(t, w.cache, testkit.Request(p, "k", 1)); !d.Allowed {
				t.Errorf("after %v: %+v, want it allowed", c.age, d)
			}
		})
	}
}

func TestAsksAboutWhatIsNotPlain(t *testing.T) {
	limit := func(texts ...string) *sluice.Plan { return testkit.Plan(t, "api", texts...) }
	for _, c := range []struct {
		name string
		req  sluice.Request
		want bool // answered without the store
	}{
		{"plain", testkit.Request(limit("2/s"), "k", 1), true},
		{"several limits", testkit.Request(limit("2/s", "9/s sliding-log"), "k", 1), true},
		{"outcome of one limit", sluice.Request{Charge: sluice.Charge{Plan: limit("2/s"), Key: "k", Cost: 1}, Outcomes: new(make(sluice.Outcomes, 1))}, true},
		{"outcomes of several", sluice.Request{Charge: sluice.Charge{Plan: limit("2/s", "9/s sliding-log"), Key: "k", Cost: 1}, Outcomes: new(make(sluice.Outcomes, 2))}, false},
		{"denials count", testkit.Request(limit("2/s sliding-log count-denied"), "k", 1), false},
		{"denials count in a bucket", testkit.Request(limit("2/s count-denied"), "k", 1), false},
		{"denials block", testkit.Request(limit("2/s", "90/min block 1h"), "k", 1), false},
		{"initial level", testkit.Request(limit("2/s initial 1"), "k", 1), false},
		{"pre-filled", testkit.Request(limit("2/s sliding-counter pre-filled"), "k", 1), false},
		{"wait", sluice.Request{Charge: sluice.Charge{Plan: limit("2/s leaky-bucket"), Key: "k", Cost: 1}, MaxWait: 1}, false},
		{"reservation", sluice.Request{Op: sluice.OpReserve, Charge: sluice.Charge{Plan: limit("2/s"), Key: "k", Cost: 1}}, false},
		{"up to", sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: limit("2/s"), Key: "k", Cost: 1}}, false},
		{"peek", sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: limit("2/s"), Key: "k", Cost: 1}}, false},
		{"more than it can hold", testkit.Request(limit("2/s sliding-log"), "k", 3), false},
		{"two keys", sluice.Request{Charge: sluice.Charge{Plan: limit("2/s"), Key: "k", Cost: 1}, More: []sluice.Charge{{Plan: limit("2/s"), Key: "l", Cost: 1}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newCached(Options{})
			for range 3 {
				testkit.Take(t, w.store, testkit.Request(c.req.Plan, c.req.Key, 1))
			}
			testkit.Take(t, w.cache, c.req)
			before := w.store.Asked()
			d := testkit.Take(t, w.cache, c.req)
			if d.Allowed {
				t.Fatalf("got %+v, want it denied", d)
			}
			if got := w.store.Asked() == before; got != c.want {
				t.Errorf("answered without the store: %v, want %v", got, c.want)
			}
			if o := c.req.Outcomes.All(); len(o) > 0 && o[0].RetryAfter != d.RetryAfter {
				t.Errorf("outcome %+v, want that of %+v", o[0], d)
			}
		})
	}
}

func TestBatch(t *testing.T) {
	w, p := newCached(Options{}), testkit.Plan(t, "api", "2/s")
	d := testkit.Take(t, w.cache, testkit.Request(p, "k", 2))
	refund := sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 1}, At: d.At}
	reqs := []sluice.Request{testkit.Request(p, "k", 1), testkit.Request(p, "l", 1), testkit.Request(p, "k", -1), refund, testkit.Request(p, "k", 1), testkit.Request(p, "k", 1)}
	out := make([]sluice.Result, len(reqs))
	for i := range out {
		out[i] = sluice.Result{Decision: sluice.Decision{Allowed: true}, Err: errors.New("left over")}
	}
	before := w.store.Asked()
	if err := w.cache.TakeBatch(t.Context(), reqs, out); err != nil {
		t.Fatal(err)
	}
	if asked := w.store.Asked() - before; asked != 4 {
		t.Errorf("the store was asked about %d requests, want 4 of 6", asked)
	}
	for i, want := range []bool{false, true, false, true, true, false} {
		if got := out[i].Decision.Allowed; got != want {
			t.Errorf("request %d allowed: %v, want %v", i, got, want)
		}
		var invalid *sluice.RequestError
		if got := errors.As(out[i].Err, &invalid); got != (i == 2) || (out[i].Err != nil) != (i == 2) {
			t.Errorf("request %d: error %v", i, out[i].Err)
		}
	}
	// A denial beside a refund in flight was not remembered; this one is.
	testkit.Take(t, w.cache, testkit.Request(p, "k", 1))
	before = w.store.Asked()
	if err := w.cache.TakeBatch(t.Context(), reqs[:1], out[:1]); err != nil || out[0].Decision.Allowed || w.store.Asked() != before {
		t.Errorf("a batch that is known: %+v, %v, asked %d times more", out[0], err, w.store.Asked()-before)
	}
	if err := w.cache.TakeBatch(t.Context(), reqs, out[:1]); err == nil {
		t.Error("fewer results than requests: no error")
	}
}

// TestMemoryIsBounded: a flood of denied keys takes no more room than allowed, and every
// answer stays correct.
func TestMemoryIsBounded(t *testing.T) {
	w, p := newCached(Options{MaxKeys: 100}), testkit.Plan(t, "api", "1/min")
	for round := range 3 {
		for i := range 2_000 {
			if d := testkit.Take(t, w.cache, testkit.Request(p, fmt.Sprint(i), 1)); d.Allowed != (round == 0) {
				t.Fatalf("round %d: key %d: %+v", round, i, d)
			}
		}
	}
	st := w.cache.denials()
	if st.Remembered-st.Evicted > 128 || st.Evicted == 0 {
		t.Errorf("%+v: want at most 128 denials alive and the others evicted", st)
	}
	if st.Answered+st.Asked != 6_000 {
		t.Errorf("%+v: want 6000 requests in all", st)
	}
}

func TestAnswersWithoutAllocating(t *testing.T) {
	w, p := newCached(Options{}), testkit.Plan(t, "api", "1/min")
	testkit.Take(t, w.cache, testkit.Request(p, "k", 1))
	req := testkit.Request(p, "k", 1)
	n := testing.AllocsPerRun(100, func() {
		if d, err := w.cache.take(t.Context(), &req); err != nil || d.Allowed {
			t.Fatalf("%+v, %v", d, err)
		}
	})
	if n != 0 {
		t.Errorf("%g allocations, want none", n)
	}
	if got := w.cache.denials().Answered; got != 101 {
		t.Errorf("%d answers from memory, want 101", got)
	}
}

func TestRefusesInvalidRequests(t *testing.T) {
	w := newCached(Options{})
	var invalid *sluice.RequestError
	if _, err := w.cache.Take(t.Context(), sluice.Request{}); !errors.As(err, &invalid) {
		t.Errorf("a request without a plan: %v, want a RequestError", err)
	}
	if asked := w.store.Asked(); asked != 0 {
		t.Errorf("the store was asked %d times", asked)
	}
}
