// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

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
	for _, most := range []*big.Rat{o.units(units), o.owed(max(o.last, now))} {
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
				o.last = 0 // all is idle, a reservation that was given back included
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
