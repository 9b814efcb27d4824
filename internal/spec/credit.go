// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"

	"github.com/sluicegate/sluice"
)

// ADR 35: an add gives back counted units and then credit, which is a negative balance. Credit
// does not drain, and is lost when it lapses.

// sees returns a balance as v sees it: with no more credit than the Credit of v.
func (v *version) sees(o between) between {
	least := -v.credit * v.series.den
	return between{max(o.lo, least), max(o.hi, least)}
}

// unitsUp returns the units of a balance, rounded up; credit is negative.
func (v *version) unitsUp(o int64) int64 {
	if o < 0 {
		return -(-o / v.series.den)
	}
	return ceilDiv(o, v.series.den)
}

// checkAdd checks that an add gives back counted units, then credit, and no more than its
// cost.
func (j *checker) checkAdd(req *sluice.Request, id int, d *sluice.Decision) error {
	if err := j.checkReceipt(d, exactly(j.now), between{}, between{-req.Cost, 0}); err != nil {
		return err
	}
	var most int64
	gave := make(map[int]bool) // by key
	for i := range j.items {
		it, given := &j.items[i], -(*req.Outcomes)[i].Spent
		want := it.l.gives(it.v, j.now, req.Cost)
		if !want.has(given) {
			return fmt.Errorf("add: gives %d of %d under [%s], want %d to %d", given, req.Cost, it.v.text, want.lo, want.hi)
		}
		if it.l.give(it.v, id, j.now, req.Cost, given); i < req.Plan.Len() {
			most = max(most, given)
		}
		gave[it.key] = gave[it.key] || given > 0
	}
	if d.Spent != -most {
		return fmt.Errorf("add: spent %d, but the most given is %d", d.Spent, most)
	}
	j.void(id, func(key int) bool { return gave[key] })
	return nil
}

// gives returns how many of n units an add gives.
func (l *account) gives(v *version, now, n int64) between {
	switch {
	case v.kind == blockKind || n == 0:
		return between{}
	case l.bounded(v) || l.manyForms(v):
		return between{0, n}
	case v.kind == bucketKind:
		o := l.balanceNow(v, now)
		if l.bal.last > now { // reserved units keep their instant
			return between{min(n, v.unitsUp(max(o.lo, 0))), min(n, v.unitsUp(max(o.hi, 0)))}
		}
		return between{v.gives(o.lo, n), v.gives(o.hi, n)}
	case v.kind == refillKind && l.front.hi <= now:
		return exactly(min(n, l.missed.at(v, now).missing))
	case l.exactWindow(v, now):
		return exactly(min(n, l.units.newestFirst(v, now, n, false)))
	}
	return between{0, n}
}

// exactWindow reports whether the units that count in v's window are known exactly.
func (l *account) exactWindow(v *version, now int64) bool {
	return (v.kind == fixedKind || v.kind == logKind || v.kind == counterKind) && !l.unsure && l.front.hi <= now
}

// balanceNow returns the debt at now or, if units are reserved, at the instant of the
// reservation.
func (l *account) balanceNow(v *version, now int64) between {
	slow, fast := l.rates(v)
	o := between{l.bal.lo, l.bal.hi}
	if l.bal.last <= now {
		o = l.bal.at(now, slow, fast)
	}
	if o.hi > 0 {
		o.hi = min(o.hi+l.conversion(v), plenty)
	}
	return o
}

// gives returns how many of n units an add gives to a balance.
func (v *version) gives(o, n int64) int64 { return min(n, max(v.unitsUp(o)+v.credit, 0)) }

// given returns a balance after an add of n units.
func (v *version) given(o, n int64) int64 {
	den := v.series.den
	switch {
	case v.gives(o, n) == 0:
		return o
	case o > 0 && n < v.unitsUp(o):
		return max(o-n*den, 0)
	case o > 0:
		return -min(n-v.unitsUp(o), v.credit) * den
	}
	return o - v.gives(o, n)*den
}

// give records an add of n units that gave the key given units.
func (l *account) give(v *version, step int, now, n, given int64) {
	if given == 0 {
		return
	}
	if v.kind == refillKind {
		l.use(v) // units refilled at its quota are kept
	}
	switch {
	case v.kind == bucketKind:
		if l.giveBalance(v, now, n); l.bounded(v) || l.manyForms(v) {
			l.loose, l.bal.lo = true, min(l.bal.lo, -l.mostCredit())
		}
	case l.bounded(v) || l.manyForms(v):
		l.loose, l.bal.lo = true, min(l.bal.lo, -l.mostCredit()) // also the balance of another form
	case v.kind == refillKind && l.front.hi <= now:
		l.missed = l.missed.at(v, now)
		l.missed.missing -= given
	case l.exactWindow(v, now):
		l.units.newestFirst(v, now, given, true)
		return // no other units were admitted for it
	default:
		l.loose = true
	}
	l.gift(step, now, given)
}

// gift records given units, which come on top of the bound. They count from the due instant of
// reserved units, as these may count in the state that they are given back to.
func (l *account) gift(step int, now, units int64) {
	at := max(now, l.front.hi, l.bal.last)
	u := unit{at: at, step: step, gift: units, drains: at}
	if k := len(l.units); k > 0 {
		u.drains = max(at, l.units[k-1].drains)
	}
	l.insert(u)
	l.env.grow(l)
}

func (l *account) giveBalance(v *version, now, n int64) {
	o := l.balanceNow(v, now)
	if b := &l.bal; b.last > now {
		less := func(o int64) int64 { return min(o, max(o-n*v.series.den, 0)) }
		b.lo, b.hi = less(o.lo), less(o.hi)
		return
	}
	after := between{v.given(o.lo, n), v.given(o.hi, n)}
	until := now + v.creditFor
	gives := after.hi < min(o.hi, 0)
	switch {
	case gives && o.lo == o.hi:
		l.bal.lapse = exactly(until)
	case gives:
		l.bal.lapse = between{until, max(l.bal.lapse.hi, until)}
	default: // it may give some credit
		l.bal.lapse = between{min(l.bal.lapse.lo, until), max(l.bal.lapse.hi, until)}
	}
	if after.hi > 0 && l.manyVersions(v) {
		_, fast := l.rates(v)
		_, up := fast.drained(1)
		after.hi += up // the writer may stay another one
	}
	l.bal.lo, l.bal.hi, l.bal.last = after.lo, after.hi, now
	l.turn(v)
	l.use(v)
}

// newestFirst returns how many of n units count in v's window at now, newest first. With out
// it removes them.
func (us list) newestFirst(v *version, now, n int64, out bool) (found int64) {
	for i := len(us) - 1; i >= 0 && found < n; i-- {
		u := &us[i]
		counts := u.at > now-v.window
		switch v.kind {
		case fixedKind:
			counts = cell(u.at, v.window) == cell(now, v.window)
		case counterKind:
			counts = cell(u.at, v.sub) >= cell(now, v.sub)-v.parts
		default: // a log
		}
		if !counts || u.at > now {
			continue
		}
		k := min(u.n, n-found)
		if found += k; out {
			u.n, u.most = u.n-k, u.most-k
		}
	}
	return found
}

// checkConvert checks that the debt of another version's balance becomes the same share of v's
// Burst as it was of that version's Burst, and that nothing else changes.
func (j *checker) checkConvert(req *sluice.Request, id int, d *sluice.Decision) error {
	if err := j.checkReceipt(d, exactly(j.now), between{}, exactly(d.Spent)); err != nil {
		return err
	}
	for i := range j.items {
		it, more := &j.items[i], (*req.Outcomes)[i].Spent
		if err := it.l.convert(it.v, id, j.now, more); err != nil {
			return err
		}
	}
	return nil
}

func (l *account) convert(v *version, step int, now, more int64) error {
	switch {
	case v.kind != bucketKind || !l.manyVersions(v):
		if more != 0 {
			return fmt.Errorf("convert: %d more owed under [%s], which alone has written", more, v.text)
		}
		return nil
	case l.bounded(v) || l.manyForms(v) || l.bal.last > now:
		if l.loose = l.loose || l.bal.last <= now; more < 0 {
			l.gift(step, now, -more)
		}
		return nil
	}
	o := l.balanceNow(v, now)
	after := o
	for _, u := range l.used {
		if u.kind != bucketKind || u == v || o.hi <= 0 {
			continue
		}
		least, _ := mulDiv(max(o.lo, 0), v.burst, u.burst)
		_, up := v.drained(1)
		after.lo, after.hi = min(after.lo, least), max(after.hi, min(mulDivUp(o.hi, v.burst, u.burst)+up, plenty))
	}
	change := func(n int64) int64 { // away from zero
		if n < 0 {
			return -ceilDiv(-n, v.series.den)
		}
		return ceilDiv(n, v.series.den)
	}
	want := between{change(after.lo - o.hi), change(after.hi - o.lo)}
	if !want.has(more) {
		return fmt.Errorf("convert: %d more owed under [%s], want %d to %d", more, v.text, want.lo, want.hi)
	}
	if o.hi > 0 {
		l.turn(v)
		l.use(v)
		l.bal.lo, l.bal.hi, l.bal.last = min(after.lo, l.least(v, now)), after.hi, now // the conversion need not be a write
	}
	if more < 0 {
		l.gift(step, now, -more)
	}
	return nil
}

// creditNow returns the debt before a spend of units that count at an instant. Credit is spent
// now, and the rest of it is lost if it lapses by that instant.
func (l *account) creditNow(v *version, now, at int64, owed, n between) between {
	o := l.owed(v, now)
	if o.lo >= 0 {
		return owed
	}
	if l.owner != v {
		if l.bal.lapse.lo = min(l.bal.lapse.lo, now+v.creditFor); n.lo > 0 {
			l.bal.lapse.hi = min(l.bal.lapse.hi, now+v.creditFor)
		}
	}
	if at < l.bal.last && o.hi+n.hi*l.series.den > 0 {
		l.loose = true // units above the credit, before the instant of reserved units
	}
	if owed.lo = o.lo; o.hi < 0 {
		owed.hi = o.hi
	}
	return owed
}

// forget drops credit that lapses before the reservation that it has paid for is due.
func (b *balance) forget(now int64) {
	if b.last <= now {
		return
	}
	if b.lo < 0 && b.last >= b.lapse.hi {
		b.lo = 0
	}
	if b.hi < 0 && b.last >= b.lapse.lo {
		b.hi = 0
	}
}

// creditBack returns how many units a refund gives back to a balance with credit: at most the
// credit spent since the last add, and at most the units of the receipt.
func (l *account) creditBack(v *version, owed between, want int64) between {
	den := v.series.den
	back := func(o int64) int64 { return min(want*den, max(v.credit*den+min(o, 0), 0)) }
	l.back = between{back(owed.lo), back(owed.hi)}
	if l.manyVersions(v) || l.waited || owed.hi >= 0 {
		l.back.lo, l.back.hi = 0, max(l.back.hi, want*den)
	}
	return between{ceilDiv(l.back.lo, den), ceilDiv(l.back.hi, den)}
}

// intoCredit returns a balance with credit after a refund of least to most.
func (l *account) intoCredit(now, least, most int64) (lo, hi int64) {
	slow, fast := l.rates(nil)
	o := l.bal.at(now, slow, fast)
	return min(max(o.lo-most, -l.mostCredit()), o.lo), o.hi - least
}

// mostCredit returns the largest credit of the versions used, in 1/den units.
func (l *account) mostCredit() (most int64) {
	for _, u := range l.used {
		most = max(most, u.credit*u.series.den)
	}
	return most
}
