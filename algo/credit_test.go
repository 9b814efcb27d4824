// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// creditOf gives a limit credit that lasts for micros µs.
func creditOf(n, micros int64) func(*sluice.Limit) {
	return option(func(b *sluice.TokenBucket) { b.Credit, b.CreditFor = n, dur(micros) })
}

func (a *account) add(now, units int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpAdd, Charge: sluice.Charge{Cost: units}})
}

func (a *account) convert(now int64) sluice.Decision {
	a.t.Helper()
	return a.do(now, sluice.Request{Op: sluice.OpConvert})
}

// left fails unless want units are left at now.
func (a *account) left(now, want int64) {
	a.t.Helper()
	if got := a.peek(now, 0).Remaining; got != want {
		a.t.Errorf("at %d %d are left, want %d", now-origin, got, want)
	}
}

// gives fails unless an add of units gives want.
func (a *account) gives(now, units, want int64) {
	a.t.Helper()
	if d := a.add(now, units); d.Spent != -want {
		a.t.Errorf("at %d an add of %d gives %d, want %d", now-origin, units, -d.Spent, want)
	}
}

// TestAddAsBucket4j: addTokens fills a bucket up to its capacity, forceAddTokens
// above it, and what is above is spent first and not refilled.
func TestAddAsBucket4j(t *testing.T) {
	a := open(t, tokens(10, s, 10)) // addTokens
	a.take(origin, 9)
	a.gives(origin, 5, 5)
	a.left(origin, 6)
	a.gives(origin, 50, 4)
	a.left(origin, 10)

	a = open(t, with(tokens(10, s, 10), creditOf(1000, h))) // forceAddTokens
	a.take(origin, 9)
	a.gives(origin, 50, 50)
	a.left(origin, 51)
	a.left(origin+10*s, 51)
	a.take(origin+10*s, 48)
	a.left(origin+10*s, 3)
	a.left(origin+10*s+700*ms, 10) // the bucket refills, the credit is gone
}

func TestCreditLapses(t *testing.T) {
	a := open(t, with(tokens(10, s, 10), creditOf(20, h)))
	a.gives(origin, 30, 20)
	a.gives(origin+m, 5, 0) // gives no credit, so it does not prolong it
	a.left(origin+h-1, 30)
	a.left(origin+h, 10)

	a.gives(origin+h, 12, 12)
	a.take(origin+h+m, 4)
	a.gives(origin+h+m, 1, 1) // lasts from here
	if d := a.peek(origin+h+m, 0); d.Remaining != 19 || d.ResetAfter != dur(h) {
		t.Errorf("got %+v, want 19 left, and a reset after an hour", d)
	}
	a.left(origin+2*h+m-1, 19)
	a.left(origin+2*h+m, 10)
	if d := a.take(origin+2*h+m, 11); d.Allowed || !d.TooLarge {
		t.Errorf("got %+v, want more than it holds", d)
	}
}

// TestRefundsIntoCredit: units of credit are refunded to the credit while some is left,
// and else only as far as units of the bucket are owed.
func TestRefundsIntoCredit(t *testing.T) {
	a := open(t, with(tokens(10, m, 10), creditOf(20, h)))
	early := a.take(origin, 10)
	a.add(origin+s, 100)
	d := a.take(origin+2*s, 8)
	if back := a.refund(origin+3*s, 10, early); back.Spent != 0 {
		t.Errorf("a receipt from before the add gives %d back", -back.Spent)
	}
	if back := a.refund(origin+9*s, 8, d); back.Spent != -8 {
		t.Errorf("of credit %d come back, want 8", -back.Spent)
	}
	a.left(origin+9*s, 30)
	d = a.take(origin+10*s, 25)
	if back := a.refund(origin+10*s, 25, d); back.Spent != -5 {
		t.Errorf("where the credit is gone %d come back, want the 5 that are owed", -back.Spent)
	}
	a.left(origin+10*s, 10)
}

// TestChargeGoesThroughCredit: a charge spends credit, the burst and then the debt.
func TestChargeGoesThroughCredit(t *testing.T) {
	charge := func(a *account, now, cost int64) sluice.Decision {
		return a.do(now, sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Cost: cost}})
	}
	a := open(t, with(tokens(10, s, 10), debtOf(5), creditOf(20, h)))
	a.add(origin, 20)
	if d := charge(a, origin, 100); d.Spent != 35 || d.Remaining != 0 {
		t.Errorf("got %+v, want credit, burst and debt spent", d)
	}
	if d := a.peek(origin, 1); d.RetryAfter != dur(600*ms) {
		t.Errorf("the next waits %v, want 600ms", d.RetryAfter)
	}

	// Behind another limit's credit it is the charging limit that owes.
	a = open(t, with(tokens(1, h, 10), creditOf(20, h)).WithName("x"))
	a.add(origin, 20)
	a.change(with(tokens(10, s, 10), debtOf(5)).WithName("x"))
	if d := charge(a, origin, 100); d.Spent != 15 {
		t.Errorf("got %+v, want burst and debt spent", d)
	}
	a.left(origin+500*ms, 0)
	a.left(origin+1500*ms, 10) // at its own rate, not that of the one which gave credit
}

// TestReservedByCredit: a reservation does not wait for the units that credit pays, whatever
// makes it wait, and waits for the rest only once.
func TestReservedByCredit(t *testing.T) {
	a := open(t, with(tokens(1, s, 4), creditOf(5, h)).WithName("a"), tokens(1, s, 6).WithName("b"))
	a.add(origin, 9)
	a.take(origin, 3) // of credit: 2 are left of 5
	d := a.do(origin, sluice.Request{Op: sluice.OpReserve, Charge: sluice.Charge{Cost: 5}, MaxWait: dur(m)})
	if !d.Allowed || d.Delay != dur(2*s) {
		t.Fatalf("reserved %+v, want a delay of 2 s, by b", d)
	}
	if got := a.items[0].State; got.B != 0 || got.Idle != origin+5*s {
		t.Errorf("a is %+v, want full at 5 s: 3 units behind the 2 s", got)
	}
	a.gives(origin, 2, 2) // keeps the instant, and becomes no credit
	if got := a.items[0].State; got.B != 0 || got.Idle != origin+3*s {
		t.Errorf("a is %+v, want full at 3 s", got)
	}
}

// TestVersionsShareCredit: a limit sees no more than its own Credit, and cuts credit that it
// spends from to that.
func TestVersionsShareCredit(t *testing.T) {
	large, small := with(tokens(10, s, 10), creditOf(50, h)).WithName("x"), with(tokens(20, s, 8), creditOf(5, m)).WithName("x")
	none := tokens(10, s, 10).WithName("x")
	a := open(t, large)
	a.add(origin, 40)
	a.change(none)
	a.left(origin, 10)
	a.change(small)
	a.left(origin+s, 13)
	a.change(large)
	a.left(origin+s, 50) // nothing is spent
	a.change(small)
	a.take(origin+s, 2)
	a.change(large)
	a.left(origin+s, 13) // 3 are left of what small saw
	a.left(origin+s+m-1, 13)
	a.left(origin+s+m, 10) // as long as small's lasts
}

// TestCreditWhenTheClockStepsBack: credit stays, for as long as it lasts from then on.
func TestCreditWhenTheClockStepsBack(t *testing.T) {
	a := open(t, with(tokens(10, s, 10), creditOf(20, h)))
	a.add(origin+1000*h, 20)
	a.left(origin, 30)
	a.take(origin, 1)
	a.left(origin+h-1, 29)
	a.left(origin+h, 10)
}

// added records units given at an instant, and the due instant of the units reserved then.
type added struct{ at, until, units int64 }

// checkBesideAdds fails if more units were admitted in a span than the bound of the limits
// plus the units added in it, or added before it while units were reserved that are due in it.
func checkBesideAdds(t *rapid.T, book admissions, adds []added, limits ...sluice.Limit) {
	for i := range book {
		units := int64(0)
		for _, last := range book[i:] {
			units += last.units
			most := algo.Bound(limits[0], dur(last.at-book[i].at+1), limits[1:]...)
			for _, a := range adds {
				if a.at <= last.at && a.until >= book[i].at {
					most += a.units
				}
			}
			if units > most {
				t.Fatalf("%v: %d units from %d to %d, want at most %d: %v beside %v", limits, units, book[i].at, last.at, most, book, adds)
			}
		}
	}
}

// TestBoundBesideAdds: under all operations and changes of limits, no span admits more than
// the bound and the units added in it, and a caller that waits RetryAfter passes.
func TestBoundBesideAdds(t *testing.T) {
	for _, limits := range [][]sluice.Limit{
		{with(tokens(7, s, 5), creditOf(9, s))},
		{with(tokens(100, 10*ms, 30), debtOf(4), creditOf(50, 5*ms))},
		{with(tokens(3, 24*h, 4), creditOf(20, 240*h))},
		{with(tokens(7, s, 5), creditOf(9, s)).WithName("x"), with(tokens(2, s, 8), creditOf(2, 3*s)).WithName("x"), tokens(9, s, 3).WithName("x")},
	} {
		rapid.Check(t, func(t *rapid.T) {
			p := play(open(t, limits[0]))
			l, now, due := limits[0], origin, int64(0)
			var adds []added
			for range 50 {
				now += drawGap(t, l)
				switch rapid.IntRange(0, 12).Draw(t, "what") {
				case 0, 1, 2:
					if d := p.add(now, rapid.Int64Range(1, 40).Draw(t, "units")); d.Spent < 0 {
						adds = append(adds, added{now, max(now, due), -d.Spent})
						p.receipts = nil // as after a reset
					}
				case 3:
					l = limits[rapid.IntRange(0, len(limits)-1).Draw(t, "limit")]
					p.change(l)
				case 4:
					if d := p.convert(now); d.Spent < 0 {
						adds = append(adds, added{now, now, -d.Spent})
					}
				default:
					e := drawTrace(t, l, 1)[0]
					d := p.step(now, e)
					due = max(due, int64(d.At))
					if e.Op != sluice.OpTake || d.Allowed || d.TooLarge || len(limits) > 1 {
						continue
					}
					if d := p.fork().take(now+d.RetryAfter.Microseconds(), e.Cost); !d.Allowed {
						t.Fatalf("%v: denied after the RetryAfter", l)
					}
				}
			}
			checkBesideAdds(t, p.admissions, adds, limits...)
		})
	}
}

// TestBoundWithCreditIsReached: a caller that spends all units at once, and then each as it is
// refilled, reaches the bound.
func TestBoundWithCreditIsReached(t *testing.T) {
	for _, l := range []sluice.Limit{
		with(tokens(7, s, 5), creditOf(9, s)), with(tokens(100, 10*ms, 30), creditOf(50, 5*ms)), with(tokens(3, 24*h, 4), creditOf(20, 240*h)),
	} {
		a, now := open(t, l), origin
		a.add(now, testkit.Token(l).Credit)
		var got int64
		for now < origin+3*window(l) {
			d := a.do(now, sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Cost: 1000}})
			got += d.Spent
			now += max(a.peek(now, 1).RetryAfter.Microseconds(), 1)
		}
		if most := algo.Bound(l, dur(now-origin)); got < most-1 || got > most {
			t.Errorf("%v: %d in %d µs, want %d or one less", l, got, now-origin, most)
		}
	}
}
