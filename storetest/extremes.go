// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// testKeys checks that different keys have different budgets, whatever bytes they have.
func testKeys(t *testing.T, b *bench) {
	h, clock := b.store(t)
	c := newChecker(h, clock)
	long := strings.Repeat("k", sluice.MaxKeyBytes)
	keys := []string{
		"", " ", "a", "A", "a ", "\x00", "\x00\x00", "a\x00b", "a:b", "{a}", "}", "{}", "%", "%7D", "a\nb", "\xff\xfe", "ключ", "鍵",
		long, long[1:], long[:len(long)-1] + "l", "l" + long[1:],
	}
	for _, scope := range []string{"s", "s:", "s}", "{s}", "s%", "鍵", strings.Repeat("s", bounds.MaxScopeBytes)} {
		for _, limit := range []string{"1/day anchor first fixed-window", "1/day sliding-log"} {
			plan := testkit.Plan(t, scope, limit)
			for _, key := range keys {
				d := c.take(t, sluice.Request{Charge: sluice.Charge{Plan: plan, Key: key, Cost: 1}})
				if !d.Allowed {
					t.Errorf("scope %.20q key %.20q: the first take is denied", scope, key)
				}
			}
		}
	}
	// The end of a scope is not confused with the beginning of a key.
	for _, pair := range [][2]string{{"ab", "c"}, {"a", "bc"}, {"abc", ""}} {
		plan := testkit.Plan(t, pair[0], "1/day fixed-window anchor first")
		if d := c.take(t, sluice.Request{Charge: sluice.Charge{Plan: plan, Key: pair[1], Cost: 1}}); !d.Allowed {
			t.Errorf("scope %q key %q: the first take is denied", pair[0], pair[1])
		}
	}
}

// testCosts sends the largest numbers to the store.
func testCosts(t *testing.T, b *bench) {
	h, clock := b.store(t)
	c := newChecker(h, clock)
	const most = sluice.MaxQuota
	year := sluice.MaxWindow
	all := []sluice.Limit{
		{Quota: most, Window: time.Microsecond},
		{Quota: most, Window: year},
		{Quota: most, Window: year, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}},
		{Quota: 1, Window: year, Burst: 1, Debt: 1},
		{Quota: 1, Window: year, Burst: 1, Debt: 1, Algorithm: sluice.TokenBucket{NextWaits: true}},
		{Quota: most/2 + 1, Window: year, Debt: most / 2, Algorithm: sluice.TokenBucket{NextWaits: true}},
		{Quota: most, Window: year, Algorithm: sluice.TokenBucket{Refill: sluice.Aligned}},
		{Quota: most, Window: time.Microsecond, Burst: most, Algorithm: sluice.TokenBucket{WarmUp: time.Microsecond}},
		{Quota: 1, Window: year, Debt: 1, Algorithm: sluice.TokenBucket{WarmUp: bounds.MaxWarmUp}},
		{Quota: most/2 + 1, Window: year, Burst: most/2 + 1, Debt: most / 2, Algorithm: sluice.TokenBucket{NextWaits: true, WarmUp: bounds.MaxWarmUp}},
		{Quota: 1, Window: time.Microsecond, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}},
		{Quota: 1, Window: time.Microsecond, Algorithm: sluice.TokenBucket{Refill: sluice.Aligned}},
		{Algorithm: sluice.LeakyBucket{}, Quota: most, Window: year, Burst: most},
		{Algorithm: sluice.LeakyBucket{}, Quota: 1, Window: year, Burst: 2},
		{Algorithm: sluice.FixedWindow{}, Quota: most, Window: year},
		{Algorithm: sluice.FixedWindow{Calendar: sluice.Year, Zone: "Pacific/Apia"}, Quota: most},
		{Algorithm: sluice.SlidingLog{}, Quota: bounds.MaxLogQuota, Window: year},
		{Algorithm: sluice.SlidingCounter{}, Quota: bounds.MaxCounterQuota(1), Window: year},
		{Algorithm: sluice.SlidingCounter{Strict: true}, Quota: bounds.MaxCounterQuota(1), Window: year},
		{Algorithm: sluice.SlidingCounter{SubWindows: 1024}, Quota: bounds.MaxCounterQuota(1024), Window: 1024 * time.Microsecond},
		{Algorithm: sluice.SlidingCounter{}, Quota: bounds.MaxCounterQuota(1)/2 + 1, Window: year / 3, Debt: bounds.MaxCounterQuota(1)/2 - 1},
		{Algorithm: sluice.SlidingHistogram{Precision: 1024}, Quota: most, Window: year},
		{Algorithm: sluice.SlidingHistogram{Precision: 3}, Quota: most, Window: time.Microsecond},
		{Algorithm: sluice.Block{For: year}, Quota: 1, Window: year},
		{Algorithm: sluice.Block{For: time.Microsecond}, Quota: most, Window: time.Microsecond},
	}
	for _, l := range all {
		if l.Quota == most && l.Burst == 0 && !testkit.Is[sluice.Block](l) {
			l.Quota, l.Debt = most/2+1, most/2
			all = append(all, l)
		}
	}
	for i, l := range all {
		limits := []sluice.Limit{l}
		if testkit.Is[sluice.Block](l) { // a plan needs another limit, too
			limits = append(limits, sluice.Per(1, year))
		}
		plan := testkit.Compile(t, fmt.Sprint("extreme ", i), limits...)
		var last sluice.Decision
		for _, op := range []sluice.Op{sluice.OpPeek, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpReserve, sluice.OpRefund, sluice.OpReset, sluice.OpAdd, sluice.OpConvert} {
			for _, cost := range []int64{0, 1, l.Full() - 1, l.Full(), l.Full() + 1, most} {
				if cost > most {
					continue
				}
				req := sluice.Request{Op: op, Charge: sluice.Charge{Plan: plan, Key: "k", Cost: cost}}
				switch op {
				case sluice.OpTake, sluice.OpPeek, sluice.OpTakeUpTo, sluice.OpCharge, sluice.OpReset, sluice.OpAdd, sluice.OpConvert, sluice.OpSettle, sluice.OpExtend: // no further fields, or not drawn
				case sluice.OpReserve:
					req.MaxWait = sluice.MaxWait
				case sluice.OpRefund:
					req.At, req.Due = last.At, last.Due
					if cost == most {
						req.At, req.Due = 1, math.MaxInt64
					}
				}
				last = c.take(t, req)
				clock.add(int64(i % 2))
			}
		}
	}
}

// testTimeZero starts the clock at 1970.
func testTimeZero(t *testing.T, b *bench) {
	runs(t, func(t *testing.T, seed uint64) {
		h, clock := b.settable(t)
		clock.Set(time.UnixMicro(0))
		c, rnd := newChecker(h, clock), newSource(seed, 2, plans(t))
		for range h.Steps / 10 {
			req := rnd.request()
			rnd.keep(req, c.take(t, req))
			clock.add(rnd.Int64N(50_000))
		}
	})
}

// testClockBack checks that a clock that steps back grants no units.
func testClockBack(t *testing.T, b *bench) {
	for _, back := range []time.Duration{time.Microsecond, time.Millisecond, time.Second, time.Hour, 24 * time.Hour, 40 * 24 * time.Hour} {
		h, clock := b.settable(t)
		for _, plan := range plans(t) {
			if plan.Term(0).PreFilled {
				continue // a rule that started behind the clock starts anew
			}
			clock.Set(start)
			everything := sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: plan, Key: "k", Cost: sluice.MaxQuota}}
			for range 3 { // a queue may take the rest in parts
				d, err := h.Store.Take(t.Context(), everything)
				if err != nil {
					t.Fatal(err)
				}
				if !d.Allowed {
					break
				}
			}
			clock.Set(start.Add(-back))
			d, err := h.Store.Take(t.Context(), everything)
			if err != nil {
				t.Fatal(err)
			}
			if d.Spent != 0 {
				t.Errorf("%v: %v back: got %d units, want none", plan.Term(0).Limit, back, d.Spent)
			}
		}
	}
}

// testRefused sends invalid requests to the store, and checks that it returns errors and
// changes nothing.
func testRefused(t *testing.T, b *bench) {
	h, clock := b.store(t)
	c := newChecker(h, clock)
	plan := testkit.Plan(t, "refused", "5/day", "x: 9/day sliding-log")
	charge := sluice.Charge{Plan: plan, Key: "k", Cost: 1}
	for _, bad := range []struct {
		name string
		req  sluice.Request
	}{
		{"no plan", sluice.Request{Charge: sluice.Charge{Key: "k", Cost: 1}}},
		{"negative cost", sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: -1}}},
		{"least cost", sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: math.MinInt64}}},
		{"cost too large", sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: sluice.MaxQuota + 1}}},
		{"largest cost", sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: math.MaxInt64}}},
		{"key too long", sluice.Request{Charge: sluice.Charge{Plan: plan, Key: strings.Repeat("k", sluice.MaxKeyBytes+1), Cost: 1}}},
		{"unknown operation", sluice.Request{Op: 99, Charge: charge}},
		{"negative wait", sluice.Request{Op: sluice.OpReserve, Charge: charge, MaxWait: -1}},
		{"wait too long", sluice.Request{Op: sluice.OpReserve, Charge: charge, MaxWait: sluice.MaxWait + 1}},
		{"refund without a receipt", sluice.Request{Op: sluice.OpRefund, Charge: charge}},
		{"one key twice", sluice.Request{Charge: charge, More: []sluice.Charge{charge}}},
		{"no plan in More", sluice.Request{Charge: charge, More: []sluice.Charge{{Key: "l", Cost: 1}}}},
		{"negative cost in More", sluice.Request{Charge: charge, More: []sluice.Charge{{Plan: plan, Key: "l", Cost: -1}}}},
		{"too many charges", sluice.Request{Charge: charge, More: make([]sluice.Charge, sluice.MaxCharges)}},
		{"no room for outcomes", sluice.Request{Charge: charge, Outcomes: &sluice.Outcomes{{}}}},
	} {
		t.Run(bad.name, func(t *testing.T) {
			want := bad.req.Validate()
			if want == nil {
				t.Fatal("Validate takes it")
			}
			_, err := h.Store.Take(t.Context(), bad.req)
			wantRefused(t, bad.name, err, want)
			out := make([]sluice.Result, 1)
			if err := sluice.TakeBatch(t.Context(), h.Store, []sluice.Request{bad.req}, out); err != nil {
				t.Fatalf("batch: got error %v, want it in the result", err)
			}
			wantRefused(t, bad.name, out[0].Err, want)
			c.take(t, sluice.Request{Op: sluice.OpPeek, Charge: charge})
		})
	}
	if err := sluice.TakeBatch(t.Context(), h.Store, make([]sluice.Request, 2), make([]sluice.Result, 1)); err == nil {
		t.Error("a batch of 2 into 1 result: got no error")
	}
	if err := sluice.TakeBatch(t.Context(), h.Store, nil, nil); err != nil {
		t.Errorf("an empty batch: %v", err)
	}
}

// wantRefused fails the test unless err is or wraps the same *RequestError as want.
func wantRefused(t *testing.T, name string, err, want error) {
	t.Helper()
	var got, wanted *sluice.RequestError
	if !errors.As(want, &wanted) {
		t.Fatalf("%s: Validate returned %T, want a *RequestError", name, want)
	}
	if !errors.As(err, &got) || *got != *wanted {
		t.Fatalf("%s: got error %v, want %v", name, err, want)
	}
}
