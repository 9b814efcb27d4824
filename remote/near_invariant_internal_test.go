// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// deniable are limits of every algorithm, with windows short enough for time to matter.
var deniable = [][]string{
	{"10/s"},
	{"3/s burst 7"},
	{"100/s burst 5 debt 9"},
	{"7/100ms burst 3"},
	{"10/s burst 20 interval-refill"},
	{"10/s burst 20 aligned-refill"},
	{"10/s burst 5 debt 20 next-waits"},
	{"50/s burst 5 warm-up 200ms"},
	{"10/s burst 3 debt 5 next-waits warm-up 1s"},
	{"50/s burst 5 leaky-bucket"},
	{"40/s burst 5 leaky-bucket nodelay debt 3"},
	{"10/100ms fixed-window"},
	{"10/s fixed-window anchor first debt 5"},
	{"20/day calendar Asia/Seoul"},
	{"20/100ms sliding-counter"},
	{"20/s sliding-counter conservative"},
	{"30/60ms sliding-counter sub-windows 6"},
	{"12/100ms sliding-log"},
	{"12/s sliding-log debt 4"},
	{"300/s sliding-histogram precision 3"},
	{"5/s sliding-log count-denied"},
	{"10/s initial 2"},
	{"20/s", "100/min fixed-window"},
	{"10/s sliding-log", "a: 30/s burst 20 leaky-bucket", "40/s sliding-counter sub-windows 4"},
	{"a: 10/s", "b: 9/s burst 12"},
}

// changed are limits that replace others of the same scope.
var changed = [][]string{{"x: 10/s"}, {"x: 30/s burst 2"}, {"x: 20/s sliding-log"}, {"x: 5/s fixed-window"}}

func allPlans(t testing.TB) []*sluice.Plan {
	t.Helper()
	var all []*sluice.Plan
	for i, texts := range deniable {
		all = append(all, testkit.Plan(t, fmt.Sprint("scope ", i), texts...))
	}
	for _, texts := range changed {
		all = append(all, testkit.Plan(t, "changing", texts...))
	}
	return all
}

// kinds are the steps of a run; one that stands here several times is drawn that often.
var kinds = []string{
	"take", "take", "take", "take", "take", "take", "take", "take", "take", "take", "take", "take",
	"charge", "reset", "add", "refund", "up to", "up to", "reserve", "two keys", "wait", "short wait", "short wait", "wait until it fits",
}

// TestInvariant19 (deny cache): the store would have denied each locally denied request at
// that instant, with the same decision.
func TestInvariant19(t *testing.T) {
	plans := allPlans(t)
	answered, asked := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newCached(Options{MaxKeys: 64})
		// Few plans in each run, so that a key is met often.
		some := rapid.SliceOfN(rapid.SampledFrom(plans), 1, 2).Draw(t, "plans")
		if rapid.Bool().Draw(t, "changing") {
			some = plans[len(deniable):]
		}
		unit := rapid.SampledFrom([]time.Duration{time.Microsecond, time.Nanosecond}).Draw(t, "clock")
		if unit < time.Microsecond {
			w.clock.Advance(time.Duration(rapid.IntRange(0, 999).Draw(t, "phase")))
		}
		var receipts []sluice.Request
		drawCharge := func() sluice.Charge {
			p := rapid.SampledFrom(some).Draw(t, "plan")
			full := p.Term(0).Full
			cost := rapid.SampledFrom([]int64{1, 1, 1, 1, 0, 2, 3, full / 2, full, full + 1}).Draw(t, "cost")
			return sluice.Charge{Plan: p, Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"), Cost: cost}
		}
		for range rapid.IntRange(20, 150).Draw(t, "steps") {
			req := sluice.Request{Charge: drawCharge()}
			switch rapid.SampledFrom(kinds).Draw(t, "kind") {
			case "take":
			case "charge":
				req.Op = sluice.OpCharge
			case "reset":
				req.Op = sluice.OpReset
			case "add":
				req.Op = sluice.OpAdd
			case "refund":
				if len(receipts) > 0 {
					req = receipts[rapid.IntRange(0, len(receipts)-1).Draw(t, "receipt")]
				}
			case "up to":
				req.Op = sluice.OpTakeUpTo
			case "reserve":
				req.Op, req.MaxWait = sluice.OpReserve, 300*time.Millisecond
			case "two keys":
				req.More = []sluice.Charge{drawCharge()}
			case "wait":
				w.clock.Advance(time.Duration(rapid.IntRange(0, 120_000_000).Draw(t, "wait")).Truncate(unit))
			case "short wait":
				w.clock.Advance(time.Duration(rapid.IntRange(0, 5_000).Draw(t, "wait")).Truncate(unit))
			case "wait until it fits":
				d := testkit.Take(t, w.store.Store, sluice.Request{Op: sluice.OpPeek, Charge: req.Charge})
				if d.RetryAfter < time.Hour {
					early := time.Duration(rapid.IntRange(0, 2_000).Draw(t, "early")).Truncate(unit)
					w.clock.Advance(max(d.RetryAfter-early, 0))
				}
			}
			if req.Validate() != nil {
				continue // the same key twice
			}
			before := w.store.Asked()
			d := testkit.Take(t, w.cache, req)
			asked++
			if w.store.Asked() == before {
				answered++
				check(t, w, req, d, unit)
				continue
			}
			if d.Allowed && d.Spent > 0 && req.Op != sluice.OpRefund {
				req.Op, req.At, req.Due, req.MaxWait = sluice.OpRefund, d.At, d.Due, 0
				req.Cost = rapid.Int64Range(1, d.Spent).Draw(t, "refund")
				receipts = append(receipts, req)
			}
		}
	})
	if answered == 0 {
		t.Error("no request was answered from memory")
	}
	t.Logf("of %d requests %d were answered from memory", asked, answered)
}

// check compares an answer from memory with the store's answer to a peek at the same instant.
func check(t *rapid.T, w *cached, req sluice.Request, got sluice.Decision, unit time.Duration) {
	t.Helper()
	req.Op = sluice.OpPeek
	want := testkit.Take(t, w.store.Store, req)
	if want.Allowed {
		t.Fatalf("denied from memory, allowed by the store: %d of %v\n got %+v\nwant %+v", req.Cost, req.Plan.Term(0), got, want)
	}
	term := req.Plan.Term(0)
	exact := req.Cost <= 1 || req.Cost < term.Burst && req.Plan.Scope() != "changing" &&
		req.Plan.Len() == 1 && term.Rate.Den == 1 && term.Refill == sluice.Continuous && term.WarmUp == 0
	if !exact && got.Remaining <= want.Remaining {
		got.Remaining = want.Remaining
	}
	if unit < time.Microsecond && got.At == want.At-1 {
		// The cache cannot see where the store's µs begin. It errs to the later.
		got.At, got.Due = want.At, want.At
		got.ResetAfter -= time.Microsecond
		if !got.TooLarge {
			got.RetryAfter -= time.Microsecond
		}
		got.Remaining = max(got.Remaining, min(want.Remaining, got.Remaining+1))
	}
	if got != want {
		t.Fatalf("%d of %v:\n got %+v\nwant %+v", req.Cost, term, got, want)
	}
}

// TestChangedLimit: a wait that comes from another form of the limit says nothing about other
// costs.
func TestChangedLimit(t *testing.T) {
	w := newCached(Options{})
	now, before := testkit.Plan(t, "changing", "x: 10/s"), testkit.Plan(t, "changing", "x: 30/s burst 2")
	for range 2 {
		testkit.Take(t, w.cache, testkit.Request(before, "a", 2))
		reserved := testkit.Request(before, "a", 1)
		reserved.Op, reserved.MaxWait = sluice.OpReserve, time.Second
		testkit.Take(t, w.cache, reserved)
		for cost := int64(1); cost <= 10; cost++ {
			req := testkit.Request(now, "a", cost)
			got := testkit.Take(t, w.cache, req)
			req.Op = sluice.OpPeek
			if want := testkit.Take(t, w.store.Store, req); got.Allowed || got != want {
				t.Errorf("%d of the new limit:\n got %+v\nwant %+v", cost, got, want)
			}
		}
		w.clock.Advance(time.Second)
	}
}
