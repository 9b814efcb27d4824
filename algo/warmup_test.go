// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// TestWarmUp: the takes of a cold key, each as soon as it passes, are far apart at
// first, as those of Guava's RateLimiter.create(2, 4, SECONDS) are.
func TestWarmUp(t *testing.T) {
	runTrace(t, one(sluice.MustParseLimit("2/s warm-up 4s")), []step{
		{0, take, 2, deny, 1, neverFit, 0, noDelay},
		{0, take, 1, pass, 0, noRetry, 1875 * ms, noDelay},
		{1375*ms - 1, take, 1, deny, 0, 1, 500*ms + 1, noDelay},
		{1375 * ms, take, 1, pass, 0, noRetry, 2125 * ms, noDelay},
		{2500 * ms, take, 1, pass, 0, noRetry, 2375 * ms, noDelay},
		{3375 * ms, take, 1, pass, 0, noRetry, 2625 * ms, noDelay},
		{4000 * ms, take, 1, pass, 0, noRetry, 3 * s, noDelay},
		{4500 * ms, take, 1, pass, 0, noRetry, 3500 * ms, noDelay},
		{5 * s, take, 1, pass, 0, noRetry, 4 * s, noDelay},
		{5500 * ms, take, 1, pass, 0, noRetry, 4500 * ms, noDelay},
		{6 * s, take, 1, pass, 0, noRetry, 4500 * ms, noDelay}, // no warmer than warm
		{7*s + 500*ms, take, 1, pass, 0, noRetry, 4 * s, noDelay},
		{11 * s, take, 1, pass, 0, noRetry, 2125 * ms, noDelay},
		{20 * s, take, 1, pass, 0, noRetry, 1875 * ms, noDelay},
	})
}

// warmOracle is a bucket with a warm-up as it is stated, in rational numbers: what
// was taken is paid for at the instant paid, and left of the warm-up is as of then.
type warmOracle struct {
	sluice.Limit
	unit, paid *big.Rat
	left       int64
	last       int64 // due instant of the latest reservation
}

func newWarmOracle(l sluice.Limit) *warmOracle {
	l = l.Filled()
	return &warmOracle{Limit: l, unit: big.NewRat(l.Window.Microseconds(), l.Quota), paid: rat(0), left: l.WarmUp.Microseconds()}
}

func (o *warmOracle) units(n int64) *big.Rat { return new(big.Rat).Mul(o.unit, rat(n)) }

// longer is 2·(left − W/2)²/W for what is left above W/2, rounded down.
func (o *warmOracle) longer() int64 {
	all := rat(o.WarmUp.Microseconds())
	above := new(big.Rat).Sub(rat(o.left), new(big.Rat).Quo(all, rat(2)))
	if above.Sign() < 0 {
		return 0
	}
	square := new(big.Rat).Mul(above, above)
	return floor(square.Quo(square.Mul(square, rat(2)), all))
}

// rest grows cold while nothing is owed.
func (o *warmOracle) rest(now int64) {
	if idle := now - ceil(o.paid); idle >= 0 {
		o.left, o.paid = min(o.left+idle, o.WarmUp.Microseconds()), rat(now)
	}
}

// lent is what a take may cost more than is there.
func (o *warmOracle) lent() int64 {
	if o.NextWaits {
		return o.Debt
	}
	return 0
}

func (o *warmOracle) owed(now int64) *big.Rat {
	if d := new(big.Rat).Sub(o.paid, rat(now)); d.Sign() > 0 {
		return d
	}
	return rat(0)
}

// counted returns how many units are owed, a part of one as a whole one.
func (o *warmOracle) counted(now int64) int64 {
	d := o.owed(now)
	return ceil(d.Quo(d, o.unit))
}

func (o *warmOracle) fits(now, cost int64) int64 {
	if cost > o.Burst+o.lent() {
		return neverFit
	}
	return max(now, ceil(new(big.Rat).Add(o.paid, o.units(max(cost-o.lent(), 0)-o.Burst))))
}

func (o *warmOracle) spend(at, cost int64) {
	if cost == 0 {
		return
	}
	o.rest(at)
	after := new(big.Rat).Add(o.paid, o.units(cost))
	before := o.longer()
	o.left = max(o.left-(ceil(after)-ceil(o.paid)), 0)
	o.paid = after.Add(after, rat(before-o.longer()))
}

func (o *warmOracle) refund(now, at, units, held int64) {
	gone := max(now-at, 0)
	if o.last > max(at, now) {
		gone = max(gone, o.last-at)
	}
	back := new(big.Rat).Sub(o.units(min(held, o.Burst+o.Debt)), rat(gone))
	for _, most := range []*big.Rat{o.units(units), o.owed(now)} {
		if most.Cmp(back) < 0 {
			back = most
		}
	}
	if back.Sign() > 0 {
		if o.paid = new(big.Rat).Sub(o.paid, back); ceil(o.paid) <= now {
			o.last = 0 // nobody is waited for any more
		}
	}
}

// remaining and reset are what an answer says.
func (o *warmOracle) remaining(now int64) int64 {
	if left := o.Burst - o.counted(now); left >= 0 {
		return left + o.lent()
	}
	return 0
}

func (o *warmOracle) reset(now int64) int64 {
	return max(ceil(o.paid)+o.WarmUp.Microseconds()-o.left-now, 0)
}

// drawWarmUp draws limits from units of less than a µs to units of days.
func drawWarmUp(t *rapid.T) sluice.Limit {
	l := drawRate(t)
	l.WarmUp = dur(rapid.OneOf(
		rapid.SampledFrom([]int64{1, 2, ms, s, h}), rapid.Int64Range(1, 10*ms), rapid.Int64Range(1, h),
	).Draw(t, "warm-up"))
	if rapid.Bool().Draw(t, "about as long as a unit") {
		l.WarmUp = dur(min(max(part(l)*rapid.Int64Range(1, 12).Draw(t, "units")/4, 1), h))
	}
	if l.Debt = rapid.SampledFrom([]int64{0, 1, 9}).Draw(t, "debt"); l.Debt > 0 {
		l.NextWaits = rapid.Bool().Draw(t, "next waits")
	}
	if l.Validate() != nil {
		l.Debt, l.NextWaits = 0, false
	}
	return l
}

// TestWarmUpIsExact plays all operations, mixed, at every scale.
func TestWarmUpIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawWarmUp(t)
		a, o := open(t, l), newWarmOracle(l)
		now, w := origin, l.WarmUp.Microseconds()
		var taken []sluice.Decision
		for range 40 {
			now += rapid.OneOf(
				rapid.Int64Range(0, 3), rapid.Int64Range(0, part(l)+2), rapid.Int64Range(0, w+2), rapid.Int64Range(0, window(l)),
			).Draw(t, "gap")
			cost := rapid.OneOf(
				rapid.Int64Range(0, 3), rapid.Int64Range(0, l.Burst), rapid.SampledFrom([]int64{l.Full(), l.Full() + 1, l.Burst + l.Debt}),
			).Draw(t, "cost")
			cost = min(cost, sluice.MaxQuota)
			if o.reset(now) == 0 {
				o.last = 0 // all is as never seen, a reservation that was given back included
			}
			var d sluice.Decision
			at, spent := o.fits(now, cost), int64(0)
			switch op := rapid.IntRange(0, 5).Draw(t, "op"); op {
			case 0, 1:
				if d = a.take(now, cost); d.Allowed != (at == now) {
					t.Fatalf("%v: take %d at %d: got %+v, want it at %d", l, cost, now, d, at)
				}
				if d.Allowed {
					o.spend(now, cost)
				} else if got := answerOf(d).Retry; got != at && got != at-now {
					t.Fatalf("%v: take %d at %d: retry after %d, want %d", l, cost, now, got, at-now)
				}
				spent = d.Spent
			case 2:
				d = a.upTo(now, cost)
				if spent = min(cost, o.remaining(now)); d.Spent != spent {
					t.Fatalf("%v: up to %d at %d: got %+v, want %d", l, cost, now, d, spent)
				}
				o.spend(now, spent)
			case 3:
				d = a.charge(now, cost)
				if spent = max(min(cost, o.Burst+o.Debt-o.counted(now)), 0); d.Spent != spent {
					t.Fatalf("%v: charge %d at %d: got %+v, want %d", l, cost, now, d, spent)
				}
				o.spend(now, spent)
			case 4:
				wait := rapid.Int64Range(0, h).Draw(t, "wait")
				if d = a.reserve(now, cost, wait); d.Allowed != (at != neverFit && at-now <= wait) || d.Allowed && int64(d.At) != at {
					t.Fatalf("%v: reserve %d at %d for up to %d: got %+v, want it at %d", l, cost, now, wait, d, at)
				}
				if d.Allowed {
					o.spend(at, cost)
					if spent = cost; at > now && cost > 0 {
						o.last = max(o.last, at)
					}
				}
			case 5:
				if len(taken) == 0 {
					continue
				}
				r := rapid.SampledFrom(taken).Draw(t, "receipt")
				units := rapid.Int64Range(1, r.Spent).Draw(t, "units")
				d = a.refund(now, units, r)
				o.refund(now, int64(r.At), units, r.Spent)
			}
			if d.Remaining != o.remaining(now) || d.ResetAfter.Microseconds() != o.reset(now) {
				t.Fatalf("%v: at %d got %+v, want %d remaining and a reset after %d µs", l, now, d, o.remaining(now), o.reset(now))
			}
			if spent > 0 {
				taken = append(taken, d)
			}
		}
	})
}

// inTurn returns when each of the units that come at instants is served, one behind
// the other.
func inTurn(a *account, arrivals []int64) (at []int64) {
	now := origin
	for _, arrival := range arrivals {
		now = max(now, arrival)
		d := a.take(now, 1)
		for range 3 {
			if d.Allowed {
				break
			}
			now += d.RetryAfter.Microseconds()
			d = a.take(now, 1)
		}
		if !d.Allowed {
			a.t.Fatalf("who waits as long as told is denied: %+v", d)
		}
		at = append(at, now)
	}
	return at
}

// TestLate: units come never sooner than in the bucket without warm-up, up to Late
// later, and of a cold key that is asked for all it has that late.
func TestLate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawWarmUp(t)
		l.Debt, l.NextWaits = 0, false
		l.Burst = min(l.Burst, 8)
		without := with(l.Filled(), warmUp(0))
		var arrivals []int64
		now := origin
		for range 60 {
			now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 2*part(l)), rapid.Int64Range(0, 2*l.WarmUp.Microseconds())).Draw(t, "gap")
			arrivals = append(arrivals, now)
		}
		late := algo.Late(l).Microseconds()
		warm := inTurn(open(t, l), arrivals)
		for i, at := range inTurn(open(t, without), arrivals) {
			if d := warm[i] - at; d < 0 || d > late {
				t.Fatalf("%v: unit %d comes %d µs later, want 0 to %d", l, i, d, late)
			}
		}
	})
	for _, l := range []sluice.Limit{
		sluice.MustParseLimit("2/s warm-up 4s"), sluice.MustParseLimit("3/s warm-up 4001us burst 3"), sluice.MustParseLimit("3/s warm-up 17s burst 3"),
		sluice.MustParseLimit("1/day warm-up 1h"), sluice.MustParseLimit("7/us warm-up 99us burst 20"), sluice.MustParseLimit("1000003/min warm-up 1009ms"),
	} {
		l = l.Filled()
		arrivals := make([]int64, 2+l.Burst+l.WarmUp.Microseconds()*l.Quota/window(l))
		warm := inTurn(open(t, l), arrivals)
		last := len(warm) - 1
		if d := warm[last] - inTurn(open(t, with(l, warmUp(0))), arrivals)[last]; d != algo.Late(l).Microseconds() {
			t.Errorf("%v: a cold key is late by %d µs, want %v", l, d, algo.Late(l))
		}
	}
	for l, want := range map[string]time.Duration{"2/s warm-up 4s": 2 * time.Second, "2/s": 0, "9/day warm-up 1h": 30 * time.Minute} {
		if got := algo.Late(sluice.MustParseLimit(l)); got != want {
			t.Errorf("Late(%s) = %v, want %v", l, got, want)
		}
	}
}

// TestWarmUpIsNeverSooner: a bucket without warm-up that is put to the same
// operations has at least as much left, whatever is given back.
func TestWarmUpIsNeverSooner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawWarmUp(t)
		a, without := play(open(t, l)), play(open(t, with(l, warmUp(0))))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40, plain...) {
			now += e.Gap
			e.Cost = min(e.Cost, sluice.MaxQuota)
			if got, most := a.peek(now, 1).Remaining, without.peek(now, 1).Remaining; got > most {
				t.Fatalf("%v: %d remain at %d, without warm-up %d", l, got, now, most)
			}
			d := a.step(now, e)
			if e.Op != sluice.OpRefund {
				if d.Spent == 0 {
					continue
				}
				e.Op, e.Cost = sluice.OpCharge, d.Spent
			}
			if got := without.step(now, e); e.Op == sluice.OpCharge && got.Spent != d.Spent {
				t.Fatalf("%v: %d units at %d, without warm-up %+v", l, d.Spent, now, got)
			}
		}
	})
}

// TestBoundOfWarmUpIsReached: a warm key that owes nothing admits as much as the
// bucket without warm-up, from units of less than a µs to units of days.
func TestBoundOfWarmUpIsReached(t *testing.T) {
	for _, text := range []string{
		"2/s warm-up 4s", "2/s burst 5 warm-up 4s debt 3", "3/s burst 2 warm-up 10s debt 7 next-waits", "7/us burst 20 warm-up 1ms", "5/day burst 3 warm-up 1h",
	} {
		l := sluice.MustParseLimit(text).Filled()
		for _, d := range []int64{1, part(l), window(l), 3*window(l) + 1} {
			a := open(t, l)
			now := origin
			for range 2 + l.WarmUp.Microseconds()*l.Quota/window(l) {
				a.take(now, 1)
				now = a.items[0].State.Idle - a.items[0].State.B
			}
			if used := a.items[0].State.B; used != l.WarmUp.Microseconds() {
				t.Fatalf("%v: used are %d µs of the warm-up", l, used)
			}
			var book ledger
			book.add(now, a.charge(now, l.Burst+l.Debt).Spent)
			for next := now; next < now+d; {
				got := a.upTo(next, sluice.MaxQuota)
				if l.Debt > 0 { // what is paid of the debt may be owed again
					got = a.charge(next, sluice.MaxQuota)
				}
				if got.Spent > 0 {
					book.add(next, got.Spent)
				}
				next += max(part(l)-1, 1)
			}
			a.do(now+d-1, sluice.Request{Op: sluice.OpPeek})
			if got := a.charge(now+d-1, sluice.MaxQuota); got.Spent > 0 {
				book.add(now+d-1, got.Spent)
			}
			// The span's first µs counts as refill time, too.
			if got, most := book.most(d), algo.Bound(l, dur(d)); got > most || got < most-1-l.Quota/window(l) {
				t.Errorf("%v: %d units within %v, want %d or so", l, got, dur(d), most)
			}
		}
	}
}

// TestMoreBurstOfAWarmUpAdmitsNoFewer: of limits that warm up in the same time at one
// rate the one with more Burst or Debt has never admitted less.
func TestMoreBurstOfAWarmUpAdmitsNoFewer(t *testing.T) {
	warm := func(l sluice.Limit) bool { return l.WarmUp > 0 }
	eachVariant(t, warm, func(t *rapid.T, l sluice.Limit) {
		larger := l
		larger.Burst += rapid.Int64Range(0, 3).Draw(t, "more burst")
		larger.Debt += rapid.Int64Range(0, 3).Draw(t, "more debt")
		a, b := open(t, l), open(t, larger)
		now := drawStart(t, l)
		var less, more int64
		for _, e := range drawTrace(t, l, 60, sluice.OpTake) {
			now += e.Gap
			less += a.take(now, 1).Spent
			if more += b.take(now, 1).Spent; more < less {
				t.Fatalf("at %d %v has admitted %d, %v only %d", now, l, less, larger, more)
			}
		}
	})
}

// TestWarmUpsShareAState: limits that differ in Burst or Debt alone use one state,
// and who gives back what another took gets nothing.
func TestWarmUpsShareAState(t *testing.T) {
	small, large := with(tokens(2, s, 1), warmUp(4*s)).Named("a"), with(tokens(4, 2*s, 3), warmUp(4*s), debtOf(5)).Named("a")
	a := open(t, small)
	took := a.take(origin, 1)
	a.change(large)
	if len(a.items[0].Others) > 0 {
		t.Fatalf("a state of its own: %+v", a.items[0])
	}
	if d := a.take(origin, 1); d.Allowed || d.RetryAfter != 375*time.Millisecond {
		t.Fatalf("1.375 s are owed, of at most 1: %+v", d)
	}
	if d := a.take(origin+375*ms, 1); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	if d := a.refund(origin+375*ms, 1, took); d.Spent != 0 {
		t.Fatalf("gave back what another limit took: %+v", d)
	}
	a.change(small)
	if d := a.take(origin+2500*ms-1, 1); d.Allowed || d.RetryAfter != time.Microsecond {
		t.Fatalf("got %+v", d)
	}
	for _, other := range []sluice.Limit{small, with(small, warmUp(5*s)), with(small, warmUp(0)), with(small, func(l *sluice.Limit) { l.Quota = 3 })} {
		plan, otherPlan := compile(t, small), compile(t, other)
		if got, want := algo.SameForm(plan.Term(0), otherPlan.Term(0)), other == small; got != want {
			t.Errorf("SameForm(%v, %v) = %v", small, other, got)
		}
	}
}

// TestWarmUpGivesBack: units given back leave the key as warm as they made it, and
// what they lasted longer is not given back.
func TestWarmUpGivesBack(t *testing.T) {
	a := open(t, with(tokens(2, s, 1), warmUp(4*s)))
	d := a.take(origin, 1)
	if back := a.refund(origin, 1, d); back.Spent != -1 {
		t.Fatalf("got %+v", back)
	}
	if d = a.take(origin, 1); d.Allowed || d.RetryAfter != 875*time.Millisecond {
		t.Fatalf("of 1.375 s half a second comes back: %+v", d)
	}
	if d = a.take(origin+875*ms, 1); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	if d = a.take(origin+875*ms, 1); d.RetryAfter != 1125*time.Millisecond {
		t.Errorf("the second unit of a key lasts 1.125 s: %+v", d)
	}
}
