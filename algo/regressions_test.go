// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// Each test of this file is for a fault that this package once had.

func TestRefundOfMoreThanABucketHolds(t *testing.T) {
	year := 366 * 24 * h
	for _, l := range []sluice.Limit{tokens(1, year, 1), leaky(1, year, 2, 1), with(tokens(1, year, 1), byInterval)} {
		a := open(t, l)
		d := a.take(origin, 1)
		d.Due = math.MaxInt64
		if got := a.refund(origin, sluice.MaxQuota, d); got.Spent != -1 || got.Remaining != l.Full() {
			t.Errorf("%v: got %+v, want the 1 unit back", l, got)
		}
	}
}

func TestReservationAddsNothingToAnIntervalBucket(t *testing.T) {
	a := open(t, with(tokens(2, s, 10), byInterval))
	a.take(origin, 10)
	if d := a.reserve(origin, 1, s); !d.Allowed || d.Delay != time.Second {
		t.Fatalf("got %+v, want a reservation at the refill", d)
	}
	if d := a.take(origin, 1); d.Allowed || d.Remaining != 0 || d.RetryAfter != time.Second {
		t.Errorf("got %+v, want a denial until the refill", d)
	}
	if d := a.upTo(origin+s, 5); d.Spent != 1 {
		t.Errorf("at the refill of 2, of which 1 is reserved, got %d", d.Spent)
	}
}

func TestHistogramRefundsNothingExpired(t *testing.T) {
	a := open(t, histogram(5, s, 3))
	d := a.take(origin, 1)
	a.take(origin+900*ms, 4)
	for _, at := range []int64{s, s + 50*ms} {
		if got := a.refund(origin+at, 1, d); got.Spent != 0 || got.Remaining != 1 {
			t.Errorf("%d µs later got back %+v, want none: the unit has expired", at, got)
		}
	}
}

func TestDenialsPayNoDebt(t *testing.T) {
	a := open(t, with(log(10, s), countDenied, debtOf(10)))
	a.take(origin, 10)
	if d := a.charge(origin, 20); d.Spent != 10 {
		t.Fatalf("charged %d, want the debt of 10", d.Spent)
	}
	if d := a.take(origin+1, 10); d.Allowed {
		t.Fatal("allowed in debt")
	}
	if d := a.charge(origin+2, 10); d.Spent != 0 {
		t.Errorf("behind a denial %d more were charged, want none", d.Spent)
	}
	if d := a.charge(origin+s, 10); d.Spent != 10 {
		t.Errorf("when the first have expired got %d, want 10: the denied are counted", d.Spent)
	}
}

func TestDenialsTakeNoRoomFromDebt(t *testing.T) {
	a := open(t, with(log(10, s), countDenied, debtOf(10)))
	a.take(origin, 10)
	a.take(origin+1, 1)
	if d := a.charge(origin+2, 20); d.Spent != 10 {
		t.Errorf("behind a denial %d were charged, want the debt of 10", d.Spent)
	}
}

// TestRefundOfAPartOfAUnit: the drained part of a unit is not given back. The rest is, and
// counts as a unit in the result.
func TestRefundOfAPartOfAUnit(t *testing.T) {
	a := open(t, tokens(1, s, 2))
	d := a.take(origin, 1)
	if r := a.refund(origin+400*ms, 1, d); r.Spent != -1 || r.Remaining != 2 {
		t.Errorf("got %+v, want one back, and 2 remaining", r)
	}
	if got := a.peek(origin+400*ms, 2); !got.Allowed || got.ResetAfter != 0 {
		t.Errorf("a peek then: got %+v, want 2 and nothing to come", got)
	}
	b := open(t, tokens(1, s, 3))
	first := b.take(origin, 1)
	b.take(origin+100*ms, 1)
	if r := b.refund(origin+400*ms, 1, first); r.Spent != -1 || r.ResetAfter != time.Second {
		t.Errorf("got %+v, want what is left of the first, 600 ms, back of 1.6 s", r)
	}
}

func TestChargeBehindAReservationCountsThere(t *testing.T) {
	for _, l := range []sluice.Limit{fixed(5, s), log(5, s), histogram(5, s, 3)} {
		a := open(t, l)
		a.take(origin, 5)
		r := a.reserve(origin+1, 1, 2*s)
		d := a.charge(origin+2, 3)
		if !r.Allowed || d.At != r.At || d.Spent != 3 || d.Delay != 0 || d.Due != sluice.Instant(origin+2) {
			t.Errorf("%v: reserved %+v, then charged %+v, want At of the reservation", l, r, d)
		}
		if got := a.refund(origin+3, 3, d); got.Spent != -3 {
			t.Errorf("%v: refund of the charge: got %+v", l, got)
		}
	}
}

func TestReservationSurvivesAChange(t *testing.T) {
	for _, c := range []struct{ from, to sluice.Limit }{
		{log(5, s), log(6, s)},
		{fixed(5, s), log(6, s)},
		{histogram(5, s, 3), log(6, s)},
		{counter(5, s, 1), log(6, s)},
		{tokens(5, s, 5), tokens(6, s, 6)},
		{with(tokens(5, s, 5), byInterval), with(tokens(6, s, 6), byInterval)},
	} {
		p := play(open(t, c.from))
		p.take(origin, 5)
		r := p.reserve(origin+1, 5, 2*s)
		if !r.Allowed || int64(r.At) < origin+s {
			t.Fatalf("%v: got %+v", c.from, r)
		}
		p.change(c.to)
		// The reserved units count at r.At: for a window they are 5 of 6.
		for _, at := range []int64{int64(r.At), int64(r.At) + s - 1} {
			if (c.to.Burst > 0 || testkit.Is[sluice.SlidingCounter](c.from)) && at > int64(r.At) {
				continue // a bucket has given some back by then, and a counter knows no instants
			}
			if d := p.fork().upTo(at, 6); d.Spent > 1 {
				t.Errorf("%v to %v: %d µs behind a reservation of 5 got %d", c.from, c.to, at-int64(r.At), d.Spent)
			}
		}
		if d := p.take(origin+3, 1); d.Allowed {
			t.Errorf("%v to %v: overtakes the reservation: %+v", c.from, c.to, d)
		}
	}
}

func TestChangeOfAPreFilledLimitKeepsWhatWasSpent(t *testing.T) {
	l := with(counter(20, 6*ms, 6), preFilled)
	next := l
	next.Quota = 3
	p := play(open(t, l))
	p.take(origin, 0)
	p.take(origin+5999, 19)
	p.change(next)
	// The fill leaves sight before the units of now do.
	if d := p.upTo(origin+10_000, 3); d.Spent != 0 {
		t.Errorf("4 ms behind 19 of 20 got %d", d.Spent)
	}
}

func TestRefundOfWhatADenialHasPushedOut(t *testing.T) {
	a := open(t, with(log(2, m), countDenied))
	first := a.take(origin, 1)
	a.take(origin+s, 1)
	a.take(origin+2*s, 1) // denied, and counted
	if r := a.refund(origin+3*s, 1, first); r.Spent != -1 {
		t.Errorf("got back %d, want 1", -r.Spent)
	}
	if d := a.take(origin+4*s, 1); d.Allowed {
		t.Errorf("the denial does not count: got %+v", d)
	}
}

func TestRefundBeforeAReservation(t *testing.T) {
	// The reservation keeps its instant: no other request may be due at it.
	for _, l := range []sluice.Limit{tokens(1, s, 1), with(tokens(1, s, 1), byInterval), leaky(1, s, 1, 1)} {
		a := open(t, l)
		first := a.take(origin, 1)
		if d := a.reserve(origin, 1, s); !d.Allowed || d.Delay != time.Second {
			t.Fatalf("%v: got %+v", l, d)
		}
		a.refund(origin, 1, first)
		if d := a.take(origin+s, 1); d.Allowed {
			t.Errorf("%v: two at one instant", l)
		}
	}
}

// TestRefundInAQueue: units that have drained by the instant of a reservation are not given
// back, even if a due instant was rounded up to the same µs.
func TestRefundInAQueue(t *testing.T) {
	a := open(t, leaky(4, µs, 4, 1))
	a.take(origin, 2)
	d := a.take(origin, 1) // due in 0.5 µs, drained in 0.75 µs
	if r := a.reserve(origin, 2, 3*µs); int64(r.At) != origin+1 {
		t.Fatalf("got %+v, want a reservation 1 µs on", r)
	}
	if got := a.refund(origin, 1, d); got.Spent != 0 {
		t.Errorf("got back %d, want nothing: the unit has drained when the reserved ones count", -got.Spent)
	}
}

// TestReceiptNamesTheEntry: if a caller's clock is slightly behind another's, its units count
// at the instant of the other's, and their receipt has that instant.
func TestReceiptNamesTheEntry(t *testing.T) {
	for _, l := range []sluice.Limit{log(5, s), histogram(5, s, 3)} {
		a := open(t, l)
		a.take(origin, 1)
		for _, d := range []sluice.Decision{
			a.take(origin-1, 1), a.upTo(origin-2, 1),
			a.reserve(origin-3, 1, s), a.charge(origin-4, 1),
		} {
			if d.At != sluice.Instant(origin) {
				t.Errorf("%v: counted at %d, want %d", l, d.At, origin)
			}
			if r := a.refund(origin, 1, d); r.Spent != -1 {
				t.Errorf("%v: got back %d, want 1", l, -r.Spent)
			}
		}
	}
}

// TestFifthFormCountsInAnother: a limit without room for its own form decides by the
// algorithm of the form in which it counts.
func TestFifthFormCountsInAnother(t *testing.T) {
	forms := []sluice.Limit{fixed(90, 10*s), counter(90, 20*s, 1), log(90, 30*s), histogram(90, 40*s, 3)}
	for _, fifth := range []sluice.Limit{log(3, 15*s), fixed(3, 15*s), histogram(3, 15*s, 3), counter(3, 25*s, 5), fixed(3, 39*s)} {
		a := open(t, forms[0])
		for _, l := range forms {
			a.change(l.WithName("n"))
			a.take(origin, 1)
		}
		a.change(fifth.WithName("n"))
		a.bare = true
		var got int64
		for range 9 {
			got += a.do(origin+1, sluice.Request{Charge: sluice.Charge{Cost: 1}}).Spent
		}
		if peeked := a.peek(origin+1, 1); got > 3 || peeked.Allowed {
			t.Errorf("%v: got %d beside four other forms, want at most 3; then %+v", fifth, got, peeked)
		}
	}
}

// TestChargeAfterTheClockSteppedBack: if the clock has stepped back behind Since, a charge
// waits until Since no longer than for a reservation.
func TestChargeAfterTheClockSteppedBack(t *testing.T) {
	year := 366 * 24 * h
	back := origin - 337*24*h
	for _, c := range []struct {
		limit sluice.Limit
		state algo.State
	}{
		{with(tokens(54, year, 54), byInterval), algo.State{Idle: origin + year, A: 1, Since: origin}},
		{with(tokens(54, year, 54), byInterval), algo.State{Since: origin}},
		{tokens(54, year, 54), algo.State{Since: origin}},
		{tokens(54, year, 54), algo.State{Idle: origin + 20*24*h, Since: origin}},
	} {
		p, err := sluice.Compile("s", c.limit.WithName("x"), fixed(10, s).WithName("y"))
		if err != nil {
			t.Fatal(err)
		}
		items := []algo.Item{{Term: p.Term(0), Cost: 1, State: c.state}, {Term: p.Term(1), Cost: 1}}
		d := algo.Decide(&sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 1}}, items, back)
		if most := back + sluice.MaxWait.Microseconds(); int64(d.At) > most {
			t.Errorf("%v: a charge at %d counts at %d, want at most %d", c.limit, back, d.At, most)
		}
		if got, most := items[1].State.Idle, back+algo.Horizon(p.Term(1)); got > most {
			t.Errorf("%v: a window of 1 s, charged at %d, ends at %d, want at most %d", c.limit, back, got, most)
		}
	}
}

// TestReservationBetweenRefillsIsNotOvertaken: until another limit's reservation
// is due, a refilled bucket denies earlier requests, also after the refill before the
// reservation.
func TestReservationBetweenRefillsIsNotOvertaken(t *testing.T) {
	late := log(5, 1500*ms).WithName("late")
	bucket := func(quota, burst int64) sluice.Limit { return with(tokens(quota, s, burst), byInterval).WithName("a") }
	for _, asks := range []sluice.Limit{bucket(4, 5), bucket(3, 8)} { // another, and the one that has reserved
		a := open(t, bucket(1, 5), late)
		a.take(origin, 5)
		a.change(bucket(3, 8), late)
		r := a.reserve(origin+ms, 1, 2*s)
		if !r.Allowed || int64(r.At) != origin+1500*ms {
			t.Fatalf("got %+v, want a reservation when the log has room", r)
		}
		a.change(asks, late)
		a.plan, a.items, a.out = compile(t, asks), a.items[:1], a.out[:1]
		now := origin + 1200*ms // the refill at 1 s has been
		if d := a.peek(now, 1); d.Allowed || d.RetryAfter != 300*time.Millisecond {
			t.Errorf("%v: a unit before the reservation: got %+v, want a denial until it", asks, d)
		}
		if d := a.upTo(now, 1); d.Allowed || d.RetryAfter != 300*time.Millisecond {
			t.Errorf("%v: up to one before the reservation: got %+v, want a denial until it", asks, d)
		}
		if d := a.upTo(origin+1500*ms, 9); !d.Allowed {
			t.Errorf("%v: at the reservation: got %+v, want what is left", asks, d)
		}
	}
}
