// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// origin is 2026-01-01 00:00 UTC in µs, the start of a minute, an hour and a
// day: most tests count time from it.
const origin = 1767225600 * s

const (
	µs = int64(1)
	ms = 1000 * µs
	s  = 1000 * ms
	m  = 60 * s
	h  = 60 * m
)

// account is one key under a plan with the states that a store would keep.
type account struct {
	t     rapid.TB
	plan  *sluice.Plan
	items []algo.Item
	out   sluice.Outcomes
	start int64 // of the rule: its first request
	bare  bool  // requests ask for no outcomes, as most do
}

func open(t rapid.TB, limits ...sluice.Limit) *account {
	t.Helper()
	return &account{
		t: t, plan: compile(t, limits...),
		items: make([]algo.Item, len(limits)),
		out:   make(sluice.Outcomes, len(limits)),
	}
}

func compile(t rapid.TB, limits ...sluice.Limit) *sluice.Plan {
	t.Helper()
	return testkit.Compile(t, "test", limits...)
}

// do decides req for the account's key at now, like a store that passes its own memory to
// Decide: a state that is not Written must not have changed.
func (a *account) do(now int64, req sluice.Request) sluice.Decision {
	a.t.Helper()
	req.Plan = a.plan
	if req.Outcomes == nil && !a.bare {
		clear(a.out)
		req.Outcomes = &a.out
	}
	if err := req.Validate(); err != nil {
		a.t.Fatalf("request %+v: %v", req, err)
	}
	if now = max(now, 0); a.start == 0 || now < a.start {
		a.start = max(now, 1) // a start ahead of now is now
	}
	kept := make([][]algo.State, len(a.items))
	words := make([][]uint64, len(a.items))
	for i := range a.items {
		it := &a.items[i]
		it.Term, it.Cost, it.Counted, it.Start = a.plan.Term(i), req.Cost, req.Counted, a.start
		kept[i] = append([]algo.State{it.State}, it.Others...)
		for _, st := range kept[i] {
			words[i] = append(words[i], st.Ring...)
		}
	}
	d := algo.Decide(&req, a.items, now)
	for i := range a.items {
		it := &a.items[i]
		if it.Written {
			all := it.Keep(nil)
			it.Term = a.plan.Term(i) // it may have counted in the state of another
			it.Pick(all)
			continue
		}
		var same []uint64
		for _, st := range kept[i] {
			same = append(same, st.Ring...)
		}
		if !slices.Equal(same, words[i]) {
			a.t.Fatalf("%v at %d of %v: not written, but the kept rings have changed from %x to %x", req.Op, now, it.Term.Limit, words[i], same)
		}
		it.State, it.Others = kept[i][0], kept[i][1:]
	}
	return d
}

// change replaces the account's limits by others of the same names.
func (a *account) change(limits ...sluice.Limit) {
	a.t.Helper()
	old := a.plan
	a.plan = compile(a.t, limits...)
	for i := range a.items {
		it := &a.items[i]
		it.Term = old.Term(i)
		all := it.Keep(nil)
		it.Term = a.plan.Term(i)
		it.Pick(all)
	}
}

func (a *account) take(now, cost int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Charge: sluice.Charge{Cost: cost}})
}

func (a *account) peek(now, cost int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Cost: cost}})
}

func (a *account) charge(now, cost int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Cost: cost}})
}

func (a *account) upTo(now, cost int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Cost: cost}})
}

func (a *account) reserve(now, cost, wait int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpReserve, Charge: sluice.Charge{Cost: cost}, MaxWait: dur(wait)})
}

func (a *account) refund(now, units int64, taken sluice.Decision) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Cost: units, Counted: max(units, taken.Spent)}, At: taken.At, Due: taken.Due})
}

func (a *account) reset(now int64) {
	a.t.Helper()
	a.do(now, sluice.Request{Op: sluice.OpReset})
}

// states returns a copy of the states that the store keeps.
func (a *account) states() []algo.State {
	var all []algo.State
	for _, it := range a.items {
		all = append(all, clone(it.State))
	}
	return all
}

// clone copies a state with its ring in order, so that equal states are equal.
func clone(st algo.State) algo.State {
	var ring []uint64
	for i := range st.Len {
		ring = append(ring, st.Ring[(st.Head+i)%len(st.Ring)])
	}
	st.Ring, st.Head = ring, 0
	return st
}

func equalStates(a, b algo.State) bool {
	a, b = clone(a), clone(b)
	return a.Idle == b.Idle && a.A == b.A && a.B == b.B && a.Reserved == b.Reserved && slices.Equal(a.Ring, b.Ring)
}

// fork returns an independent account with the same states.
func (a *account) fork() *account {
	b := *a
	b.items = slices.Clone(a.items)
	b.out = make(sluice.Outcomes, len(a.out))
	for i := range b.items {
		it := &b.items[i]
		it.State = clone(it.State)
		it.Others = slices.Clone(it.Others)
		for k := range it.Others {
			it.Others[k] = clone(it.Others[k])
		}
	}
	return &b
}

func dur(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }

func limit(a sluice.Algorithm, quota, window int64) sluice.Limit {
	return sluice.Limit{Algorithm: a, Quota: quota, Window: dur(window)}
}

func tokens(quota, window, burst int64) sluice.Limit {
	return limit(sluice.TokenBucket{}, quota, window).WithBurst(burst)
}

func log(quota, window int64) sluice.Limit { return limit(sluice.SlidingLog{}, quota, window) }

func fixed(quota, window int64) sluice.Limit { return limit(sluice.FixedWindow{}, quota, window) }

func counter(quota, window int64, subWindows int) sluice.Limit {
	return limit(sluice.SlidingCounter{SubWindows: subWindows}, quota, window)
}

func histogram(quota, window int64, precision int) sluice.Limit {
	return limit(sluice.SlidingHistogram{Precision: precision}, quota, window)
}

func leaky(quota, window, burst, delayAfter int64) sluice.Limit {
	return limit(sluice.LeakyBucket{DelayAfter: delayAfter}, quota, window).WithBurst(burst)
}

// with returns l changed by each of the changes.
func with(l sluice.Limit, changes ...func(*sluice.Limit)) sluice.Limit {
	for _, change := range changes {
		change(&l)
	}
	return l
}

// option changes an option of the limit's algorithm.
func option[A sluice.Algorithm](change func(*A)) func(*sluice.Limit) {
	return func(l *sluice.Limit) { testkit.Set(l, change) }
}

// deficit is an initial one, of a fixed window or of a token bucket.
func deficit(n int64) func(*sluice.Limit) {
	return func(l *sluice.Limit) {
		if testkit.Is[sluice.FixedWindow](*l) {
			testkit.Set(l, func(w *sluice.FixedWindow) { w.InitialDeficit = n })
		} else {
			testkit.Set(l, func(b *sluice.TokenBucket) { b.InitialDeficit = n })
		}
	}
}

func warmUp(n int64) func(*sluice.Limit) {
	return option(func(b *sluice.TokenBucket) { b.WarmUp = dur(n) })
}

func debtOf(n int64) func(*sluice.Limit) { return func(l *sluice.Limit) { l.Debt = n } }

func countDenied(l *sluice.Limit) { l.CountDenied = true }

var (
	nextWaits    = option(func(b *sluice.TokenBucket) { b.NextWaits = true })
	byInterval   = option(func(b *sluice.TokenBucket) { b.Refill = sluice.Interval })
	aligned      = option(func(b *sluice.TokenBucket) { b.Refill = sluice.Aligned })
	onFirst      = option(func(w *sluice.FixedWindow) { w.OnFirst = true })
	conservative = option(func(c *sluice.SlidingCounter) { c.Conservative = true })
	whole        = option(func(c *sluice.SlidingCounter) { c.Whole = true })
	strict       = option(func(c *sluice.SlidingCounter) { c.Strict = true })
	preFilled    = option(func(c *sluice.SlidingCounter) { c.PreFilled = true })
)

func daily(zone string) func(*sluice.Limit) {
	return func(l *sluice.Limit) {
		l.Window = 0
		testkit.Set(l, func(w *sluice.FixedWindow) { w.Calendar, w.Zone = sluice.Day, zone })
	}
}
