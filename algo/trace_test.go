// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// event is one request of a random trace.
type event struct {
	Gap  int64 // µs since the one before
	Op   sluice.Op
	Cost int64
	Wait int64 // of a reservation, µs
	Pick int   // of a refund: which receipt from the newest
}

// window returns a length in which l's traffic comes back, in µs.
func window(l sluice.Limit) int64 { return l.Filled().Window.Microseconds() }

// part returns the length of l's sub-window, its window or its time per unit.
func part(l sluice.Limit) int64 {
	switch {
	case testkit.Counter(l).SubWindows > 1:
		return window(l) / int64(testkit.Counter(l).SubWindows)
	case testkit.Is[sluice.TokenBucket](l) || testkit.Is[sluice.LeakyBucket](l):
		return window(l)/l.Quota + 1
	default:
		return window(l)
	}
}

func drawGap(t *rapid.T, l sluice.Limit) int64 {
	w, p := window(l), part(l)
	return rapid.OneOf(
		rapid.Just(int64(0)),
		rapid.SampledFrom([]int64{0, 1, p - 1, p, p + 1, w - 1, w, w + 1}),
		rapid.Int64Range(0, 2*w/l.Quota+1),
		rapid.Int64Range(0, w),
		rapid.Int64Range(0, 3*w),
	).Draw(t, "gap")
}

func drawCost(t *rapid.T, l sluice.Limit) int64 {
	full := l.Full()
	return rapid.OneOf(
		rapid.Just(int64(1)),
		rapid.Int64Range(0, min(full, 4)),
		rapid.Int64Range(0, full+1),
		rapid.SampledFrom([]int64{full, full + 1, full + l.Debt, 2*full + 1}),
	).Draw(t, "cost")
}

// drawTrace returns up to n requests of the operations given, or of all.
func drawTrace(t *rapid.T, l sluice.Limit, n int, ops ...sluice.Op) []event {
	if len(ops) == 0 {
		ops = []sluice.Op{
			sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpTakeUpTo,
			sluice.OpCharge, sluice.OpReserve, sluice.OpRefund, sluice.OpPeek,
		}
	}
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) event {
		e := event{Gap: drawGap(t, l), Op: rapid.SampledFrom(ops).Draw(t, "op"), Cost: drawCost(t, l)}
		switch e.Op {
		case sluice.OpReserve:
			e.Wait = rapid.Int64Range(0, min(2*window(l), sluice.MaxWait.Microseconds())).Draw(t, "wait")
		case sluice.OpRefund:
			e.Pick = rapid.IntRange(0, 3).Draw(t, "pick")
		}
		return e
	}), 1, n).Draw(t, "trace")
}

func drawStart(t *rapid.T, l sluice.Limit) int64 {
	return origin + rapid.Int64Range(0, window(l)).Draw(t, "start")
}

// receipt records spent units that can be given back.
type receipt struct {
	units int64
	taken sluice.Decision
}

// player plays events on an account and records the admitted units.
type player struct {
	*account
	admissions admissions
	receipts   []receipt
}

func play(a *account) *player { return &player{account: a} }

// step decides e at now and records it.
func (p *player) step(now int64, e event) sluice.Decision {
	p.t.Helper()
	req := sluice.Request{Op: e.Op, Charge: sluice.Charge{Cost: e.Cost}}
	var from *receipt
	switch e.Op {
	case sluice.OpReserve:
		req.MaxWait = dur(e.Wait)
	case sluice.OpRefund:
		if len(p.receipts) == 0 {
			req.Op = sluice.OpPeek
			break
		}
		from = &p.receipts[max(len(p.receipts)-1-e.Pick, 0)]
		req.Cost = min(req.Cost, from.units)
		req.At = from.taken.At
		if req.Cost == from.taken.Spent {
			req.Due = from.taken.Due
		}
	}
	d := p.do(now, req)
	switch {
	case from != nil:
		// A caller that gives units back has not used them, however many still counted.
		from.units -= req.Cost
		p.admissions.remove(int64(from.taken.At), req.Cost)
	case d.Spent > 0:
		p.admissions.add(int64(d.At), d.Spent)
		if d.At > 0 { // units spent at instant 0 cannot be given back
			p.receipts = append(p.receipts, receipt{d.Spent, d})
		}
	}
	return d
}

// eachVariant runs a property on every variant that is wanted.
func eachVariant(t *testing.T, want func(sluice.Limit) bool, property func(t *rapid.T, l sluice.Limit)) {
	t.Helper()
	for _, v := range variants() {
		if want(v.limit) {
			t.Run(v.name, func(t *testing.T) {
				t.Parallel()
				rapid.Check(t, func(t *rapid.T) { property(t, v.limit) })
			})
		}
	}
}

func all(sluice.Limit) bool { return true }

func of(algorithms ...sluice.Algorithm) func(sluice.Limit) bool {
	return func(l sluice.Limit) bool {
		return slices.ContainsFunc(algorithms, func(a sluice.Algorithm) bool { return a.String() == l.Filled().Algorithm.String() })
	}
}

// admissions holds all admitted units with the instants at which they count, in order.
type admissions []admitted

type admitted struct{ at, units int64 }

func (l *admissions) add(at, units int64) {
	i, found := slices.BinarySearchFunc(*l, at, func(a admitted, at int64) int { return cmp.Compare(a.at, at) })
	if found {
		(*l)[i].units += units
		return
	}
	*l = slices.Insert(*l, i, admitted{at, units})
}

func (l *admissions) remove(at, units int64) { l.add(at, -units) }

// most returns the most units in any span (t, t+d].
func (l *admissions) most(d int64) int64 {
	var best, sum int64
	oldest := 0
	for _, a := range *l {
		for sum += a.units; (*l)[oldest].at <= a.at-d; oldest++ {
			sum -= (*l)[oldest].units
		}
		best = max(best, sum)
	}
	return best
}

// within returns the units in (from, to].
func (l *admissions) within(from, to int64) int64 {
	var sum int64
	for _, a := range *l {
		if a.at > from && a.at <= to {
			sum += a.units
		}
	}
	return sum
}
