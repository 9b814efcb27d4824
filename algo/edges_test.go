// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// hourly is one unit per 50 min under every algorithm: a reservation of the
// second is almost as far ahead as one may be.
func hourly() []sluice.Limit {
	const w = 50 * m
	return []sluice.Limit{
		tokens(1, w, 1), with(tokens(1, w, 1), byInterval), with(tokens(1, w, 1), aligned), leaky(1, w, 1, 1),
		fixed(1, w), with(fixed(1, w), onFirst), log(1, w), histogram(1, w, 3),
		counter(1, w, 1), counter(1, w, 5), with(counter(1, w, 1), strict), with(counter(1, w, 5), strict), with(counter(1, w, 5), conservative),
	}
}

func TestLongReservationIsNoClockThatSteppedBack(t *testing.T) {
	const start = origin - origin%(50*m) // of a window on the clock
	for _, l := range hourly() {
		a := open(t, l)
		a.take(start, 1)
		r := a.reserve(start, 1, 60*m)
		if !r.Allowed || r.Delay < 50*time.Minute {
			// A strict counter waits until the first unit no longer counts.
			if !testkit.Counter(l).Strict {
				t.Errorf("%v: got %+v, want a reservation", l, r)
			}
			continue
		}
		first := a.peek(start, 1)
		if got := a.take(start, 1); got.Allowed || got.RetryAfter != first.RetryAfter {
			t.Errorf("%v: a peek says %v, a take %v", l, first.RetryAfter, got.RetryAfter)
		}
		want := r.Delay + 50*time.Minute
		if testkit.Counter(l).Strict || testkit.Counter(l).Conservative {
			want += 10 * time.Minute // until its sub-window has expired
		}
		if first.RetryAfter != want {
			t.Errorf("%v: denied for %v, want %v: the reservation is lost", l, first.RetryAfter, want)
		}
		if back := a.refund(start, 1, r); back.Spent != -1 {
			t.Errorf("%v: cancelled: got %+v", l, back)
		}
	}
}

// TestClockBackBehindTheLimit: a bucket may be ahead by its Burst and Debt, and with a
// reservation by MaxWait more. A bucket further ahead is from before the clock stepped back:
// it starts over empty, without debt.
func TestClockBackBehindTheLimit(t *testing.T) {
	wait := sluice.MaxWait.Microseconds()
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		state algo.State
		retry time.Duration
	}{
		{"in debt", with(tokens(1, s, 3), debtOf(2)), algo.State{Idle: 5 * s}, 3 * time.Second},
		{"behind it", with(tokens(1, s, 3), debtOf(2)), algo.State{Idle: 5*s + 1}, time.Second},
		{"years ahead", with(tokens(1, s, 3), debtOf(2)), algo.State{Idle: 24 * 1000 * h}, time.Second},
		{"without a debt", tokens(1, s, 3), algo.State{Idle: 3*s + 1}, time.Second},
		{"reserved", tokens(1, s, 3), algo.State{Idle: wait + 3*s, Last: wait}, sluice.MaxWait + time.Second},
		{"behind a reservation", tokens(1, s, 3), algo.State{Idle: wait + 3*s, Last: wait + 1}, time.Second},
		{"the next waits", with(tokens(1, s, 3), debtOf(2), nextWaits), algo.State{Idle: 24 * h}, 2 * time.Second},
		{"interval in debt", with(tokens(1, s, 3), byInterval, debtOf(2)), algo.State{Idle: 5 * s, A: 5}, 3 * time.Second},
		{"behind an interval's", with(tokens(1, s, 3), byInterval, debtOf(2)), algo.State{Idle: 5*s + 1, A: 1}, time.Second},
		{"interval reserved", with(tokens(1, s, 3), byInterval), algo.State{Idle: wait + 3*s, A: 3, Last: 1}, sluice.MaxWait + time.Second},
		{"behind an interval's reservation", with(tokens(1, s, 3), byInterval), algo.State{Idle: wait + 3*s + 1, A: 3, Last: 1}, time.Second},
	} {
		a := open(t, c.limit)
		term := a.plan.Term(0)
		state := c.state
		for _, at := range []*int64{&state.Idle, &state.Last} {
			if *at > 1 {
				*at += origin
			}
		}
		a.items[0].State = state
		got := a.take(origin, 1)
		if got.Allowed || got.RetryAfter != c.retry {
			t.Errorf("%s: got %+v, want a denial for %v", c.name, got, c.retry)
		}
		if term.OneWord && state.Last == 0 && term.Lent == 0 {
			var word sluice.Decision
			if algo.WordTake(term, state.Idle, 0, origin, 1, &word); word != got {
				t.Errorf("%s: got of a word %+v, want %+v", c.name, word, got)
			}
		}
	}
}

// TestRefundUnderSeveralQueues: Due is the instant of the slowest queue. The units may have
// drained from another queue at another time.
func TestRefundUnderSeveralQueues(t *testing.T) {
	plan := compile(t, leaky(10, s, 6, 1).WithName("fast"), leaky(1, s, 3, 1).WithName("slow"))
	items := []algo.Item{{Term: plan.Term(0)}, {Term: plan.Term(1)}}
	do := func(items []algo.Item, op sluice.Op, now, cost int64, d sluice.Decision) sluice.Decision {
		for i := range items {
			items[i].Cost = cost
		}
		req := sluice.Request{Op: op, Charge: sluice.Charge{Plan: plan, Cost: cost}, At: d.At, Due: d.Due}
		return algo.Decide(&req, items, now)
	}
	do(items, sluice.OpTake, origin, 1, sluice.Decision{})
	second := do(items, sluice.OpTake, origin, 1, sluice.Decision{})
	if second.Delay != time.Second {
		t.Fatalf("got a delay of %v, want 1s", second.Delay)
	}
	// Others use only the fast queue; the second's unit has left it by then.
	do(items[:1], sluice.OpTake, origin+s/2, 5, sluice.Decision{})
	before := items[0].State
	do(items, sluice.OpRefund, origin+s/2, 1, second)
	if items[0].State.Idle != before.Idle || items[0].State.A != before.A {
		t.Errorf("the fast queue gave back a unit of others: %+v has become %+v", before, items[0].State)
	}
}

func TestRefundBehindARefill(t *testing.T) {
	a := open(t, with(tokens(3, s, 10), byInterval))
	d := a.take(origin, 5)
	a.take(origin, 5)
	// Of the first 5 the refill has made up for 3.
	if r := a.refund(origin+s, 5, d); r.Spent != -2 || r.Remaining != 5 {
		t.Errorf("got %+v, want 2 back and 5 remaining", r)
	}
	if r := a.refund(origin+2*s, 5, d); r.Spent != 0 {
		t.Errorf("two refills later got %+v, want nothing back", r)
	}
}

func TestRefundOfDebt(t *testing.T) {
	for _, l := range []sluice.Limit{
		with(tokens(7, s, 5), debtOf(9)), with(tokens(7, s, 5), byInterval, debtOf(9)), with(leaky(7, s, 5, 5), debtOf(9)),
		with(fixed(5, s), debtOf(9)), with(log(5, s), debtOf(9)), with(counter(5, s, 1), debtOf(9)), with(histogram(5, s, 3), debtOf(9)),
	} {
		a := open(t, l)
		d := a.charge(origin, 20)
		if d.Spent != 14 {
			t.Errorf("%v: charged %d, want 14", l, d.Spent)
		}
		if r := a.refund(origin, 14, d); r.Spent != -14 || r.Remaining != 5 || r.ResetAfter != 0 {
			t.Errorf("%v: refund of all: got %+v", l, r)
		}
	}
}

func TestCancelInAQueue(t *testing.T) {
	a := open(t, leaky(1, s, 20, 1))
	first := a.take(origin, 5)
	second := a.take(origin, 1)
	if first.Delay != 4*time.Second || second.Delay != 5*time.Second {
		t.Fatalf("got delays of %v and %v, want 4s and 5s", first.Delay, second.Delay)
	}
	// A later waiter keeps its instant, so the units before it stay taken.
	if d := a.refund(origin, 5, first); d.Spent != 0 {
		t.Errorf("cancelled the first of two: got back %d, want none", -d.Spent)
	}
	if d := a.refund(origin, 1, second); d.Spent != -1 {
		t.Errorf("cancelled the last: got back %d, want 1", -d.Spent)
	}
	if d := a.take(origin, 1); d.Delay != 5*time.Second {
		t.Errorf("the next is delayed %v, want 5s", d.Delay)
	}
}

func TestRefundOfWhatWasNeverTaken(t *testing.T) {
	for _, l := range []sluice.Limit{fixed(5, s), with(fixed(5, s), onFirst), log(5, s), counter(5, s, 1), counter(6, 6*ms, 6)} {
		for _, at := range []int64{-window(l) - 1, window(l), 5 * window(l)} {
			a := open(t, l)
			a.take(origin, 3)
			d := a.refund(origin+window(l)/2, 3, sluice.Decision{At: sluice.Instant(origin + at), Spent: 3})
			if d.Spent != 0 {
				t.Errorf("%v: units said to be of %d µs later: got back %d", l, at, -d.Spent)
			}
		}
	}
}

func TestRefundOutOfSight(t *testing.T) {
	for _, l := range []sluice.Limit{counter(7, s, 1), counter(7, s, 5)} {
		a := open(t, l)
		d := a.take(origin, 3)
		a.take(origin+s, 1)
		if r := a.refund(origin+s+part(l), 3, d); r.Spent != 0 {
			t.Errorf("%v: out of sight, but got back %d", l, -r.Spent)
		}
	}
}

// TestCancelKeepsTheFrontier: a cancelled reservation gives units back, but no take
// overtakes its instant.
func TestCancelKeepsTheFrontier(t *testing.T) {
	for _, l := range []sluice.Limit{log(1, s), histogram(1, s, 3), fixed(1, s), with(fixed(1, s), onFirst)} {
		a := open(t, l)
		first := a.take(origin, 1)
		r := a.reserve(origin, 1, s)
		a.refund(origin, 1, first)
		if back := a.refund(origin, 1, r); back.Spent != -1 || back.Remaining != 0 {
			t.Errorf("%v: cancelled: got %+v", l, back)
		}
		if d := a.take(origin+s-1, 1); d.Allowed || d.RetryAfter != time.Microsecond {
			t.Errorf("%v: before the instant of a cancelled reservation: got %+v", l, d)
		}
		if d := a.take(origin+s, 1); !d.Allowed {
			t.Errorf("%v: at the instant of a cancelled reservation: got %+v", l, d)
		}
	}
}

func TestRemainingAtTheEdgeOfASubWindow(t *testing.T) {
	for _, c := range []struct {
		limit         sluice.Limit
		before, after int64 // remaining
	}{
		{with(counter(10, s, 1), conservative), 3, 10},
		{with(counter(10, s, 5), conservative), 3, 10},
		{with(counter(10, s, 5), whole), 10, 10}, // 7 until a sub-window earlier
		{counter(10, s, 1), 10, 10},              // 7 by a millionth, rounded down
		{counter(10, s, 5), 10, 10},
		{with(counter(10, s, 1), strict), 9, 10},
		{with(counter(10, s, 5), strict), 9, 10},
	} {
		a := open(t, c.limit)
		a.take(origin, 7)
		edge := origin + s + part(c.limit)
		if got := a.peek(edge-1, 1).Remaining; got != c.before {
			t.Errorf("%v: 1 µs before the edge got %d remaining, want %d", c.limit, got, c.before)
		}
		if got := a.peek(edge, 1).Remaining; got != c.after {
			t.Errorf("%v: at the edge got %d remaining, want %d", c.limit, got, c.after)
		}
	}
	// At an edge that the state is not idle at.
	b := open(t, with(counter(10, s, 1), conservative))
	b.take(origin, 4)
	b.take(origin+s, 3)
	if got := b.peek(origin+2*s, 1).Remaining; got != 7 {
		t.Errorf("when the first of two windows has left sight got %d remaining, want 7", got)
	}
	a := open(t, with(counter(10, s, 5), conservative))
	a.take(origin, 4)
	a.take(origin+s/5, 3)
	if got := a.peek(origin+s+s/5, 1).Remaining; got != 7 {
		t.Errorf("when the first of two sub-windows has left sight got %d remaining, want 7", got)
	}
}

func TestReset(t *testing.T) {
	for _, v := range variants() {
		a := open(t, v.limit)
		fresh := a.peek(origin, 1)
		a.upTo(origin, 3)
		a.charge(origin, 3)
		a.reserve(origin, 1, s)
		a.reset(origin)
		if got := a.peek(origin, 1); got != fresh {
			t.Errorf("%s: got %+v, want that of a new key, %+v", v.name, got, fresh)
		}
	}
}

func TestTakeCapsTheDelayOfAQueue(t *testing.T) {
	a := open(t, leaky(10, s, 6, 1))
	for i, want := range []bool{true, true, true, false} {
		d := a.do(origin, sluice.Request{Charge: sluice.Charge{Cost: 1}, MaxWait: 200 * time.Millisecond})
		if d.Allowed != want {
			t.Errorf("take %d: got %+v, want allowed %v", i+1, d, want)
		}
		if !want && d.RetryAfter != 100*time.Millisecond {
			t.Errorf("take %d: denied for %v, want 100ms", i+1, d.RetryAfter)
		}
	}
	if d := a.take(origin, 1); !d.Allowed || d.Delay != 300*time.Millisecond {
		t.Errorf("with more patience: got %+v, want a delay of 300ms", d)
	}
}
