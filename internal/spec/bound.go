// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import "fmt"

// envelope is a bucket with the fastest rate and the largest Burst, Debt and Credit of the
// versions used, which has admitted exactly the units that count. It overflows if and only if
// more than its Burst, its Debt and the units that refill in a span were admitted in that
// span.
type envelope struct {
	level int64 // 1/den units, as of the instant last
	last  int64
	fast  *version
	most  int64 // Burst + Debt + Credit
}

// grow computes the envelope anew from the versions and units.
func (e *envelope) grow(l *account) {
	*e = envelope{}
	for _, v := range l.used {
		if !v.drainsEvenly() {
			continue
		}
		if e.fast == nil || v.faster(e.fast) {
			e.fast = v
		}
	}
	var burst, debt, credit int64
	for _, v := range l.used {
		if v.drainsEvenly() {
			burst, debt, credit = max(burst, v.burst), max(debt, v.debt), max(credit, v.credit)
		}
	}
	e.most = burst + debt + credit
	if e.fast == nil {
		return
	}
	for i := range l.units {
		e.add(&l.units[i])
	}
}

func (e *envelope) add(u *unit) {
	if e.fast == nil || u.denied || u.n == 0 && u.gift == 0 {
		return
	}
	_, gone := e.fast.drained(u.at - e.last)
	e.level = max(max(e.level-gone, 0)-u.gift*e.fast.series.den, 0) + u.n*e.fast.series.den
	e.last = u.at
}

// without returns the debt of the envelope's bucket at now, with reservations ahead of now, as
// if a step had spent fewer units.
func (l *account) without(step int, fewer, now int64) int64 {
	e := l.env
	e.level, e.last = 0, 0
	for _, u := range l.units {
		if u.step == step {
			u.n = max(u.n-fewer, 0)
		}
		e.add(&u)
	}
	if e.fast == nil {
		return 0
	}
	if now < e.last {
		more, _ := e.fast.drained(e.last - now)
		return e.level + more
	}
	_, gone := e.fast.drained(now - e.last)
	return max(e.level-gone, 0)
}

// checkBound checks DESIGN §4, "Change of a limit": buckets admit at most max Burst + max Debt
// + max rate·d in any span d; windows the sum over the forms used of each form's bound with
// its largest Quota and Debt.
func (l *account) checkBound() error {
	if l.env.fast != nil && !l.severalForms() {
		if l.env.level > l.env.most*l.series.den {
			return fmt.Errorf("bound: %d units above the largest Burst and Debt of %d and what the fastest version gives in time",
				ceilDiv(l.env.level, l.series.den)-l.env.most, l.env.most)
		}
		return nil
	}
	if len(l.units) == 0 {
		return nil
	}
	to := l.units[len(l.units)-1].at
	var sum int64
	for i := len(l.units) - 1; i >= 0; i-- {
		u := &l.units[i]
		if !u.denied {
			sum += u.n - u.gift
		}
		if i > 0 && l.units[i-1].at == u.at {
			continue
		}
		if most := l.bound(u.at, to); sum > most {
			return fmt.Errorf("bound: %d units in the %d µs from %d to %d, at most %d are stated", sum, to-u.at, u.at, to, most)
		}
	}
	return nil
}

func (l *account) severalForms() bool {
	for _, v := range l.used {
		if v.form != l.used[0].form {
			return true
		}
	}
	return false
}

// bound returns the sum of the bounds of all forms used, between two instants, both included.
func (l *account) bound(from, to int64) (sum int64) {
	for i, v := range l.used {
		first := true
		for _, u := range l.used[:i] {
			first = first && u.form != v.form
		}
		if first {
			sum += l.formBound(v.form, from, to)
		}
	}
	return sum
}

// formBound returns the bound of one form: that of a version with the largest numbers of all
// versions of this form.
func (l *account) formBound(f form, from, to int64) int64 {
	var quota, burst, debt, credit int64
	careful := true // all versions of a counter are conservative
	var fast *version
	for _, v := range l.used {
		if v.form != f {
			continue
		}
		quota, burst, debt, credit = max(quota, v.quota), max(burst, v.burst), max(debt, v.debt), max(credit, v.credit)
		careful = careful && v.rule == conservative
		if v.drainsEvenly() && (fast == nil || v.faster(fast)) {
			fast = v
		}
	}
	switch d := to - from; f.kind {
	case bucketKind, warmKind: // a warm-up admits no more
		gone, _ := mulDiv(d, fast.quota, fast.window)
		return burst + debt + credit + gone
	case refillKind: // a refill gives no more than is missing
		return burst + debt + min(quota, burst+debt)*ceilDiv(d, f.window)
	case fixedKind:
		return (quota + debt) * (cell(to, f.window) - cell(from, f.window) + 1)
	case firstKind: // windows open at least a window apart
		return (quota + debt) * (ceilDiv(d, f.window) + 1)
	case counterKind:
		if sub := f.window / f.parts; !careful {
			// Any Window of whole sub-windows holds Quota, and the debt on top is paid at that
			// rate.
			return quota*ceilDiv(cell(to, sub)-cell(from, sub)+1, f.parts) + debt
		}
		return quota*(d/f.window+1) + debt
	default: // a log and a histogram: Quota in any Window
		return (quota + debt) * (d/f.window + 1)
	}
}
