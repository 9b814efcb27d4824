// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

// balance is the debt of a key of a bucket, in 1/den units: at least lo and at most hi as of
// the instant last. Under a single version both are the same and exact. If versions change, lo
// has drained at the fastest rate used and hi at the slowest: the rules drain at the faster of
// two (rules.md 1), and the documents promise only a value between these. A negative balance
// is credit, until it lapses: hi at lapse.lo, lo at lapse.hi.
type balance struct {
	lo, hi int64
	last   int64 // ahead of now while a reservation is pending
	lapse  between
}

// at returns the balance at now. While a reservation is pending, the units that drain until it
// is due are owed too: a reservation raises the balance to its instant.
func (b *balance) at(now int64, slow, fast *version) between {
	left := func(n, gone, lapse int64) int64 {
		if n < 0 && now < lapse {
			return n
		}
		return max(n-gone, 0)
	}
	if now >= b.last {
		_, most := fast.drained(now - b.last)
		least, _ := slow.drained(now - b.last)
		return between{left(b.lo, most, b.lapse.hi), left(b.hi, least, b.lapse.lo)}
	}
	least, _ := slow.drained(b.last - now)
	_, most := fast.drained(b.last - now)
	if b.lo < 0 { // credit beside a reservation does not pay for the time until it is due
		least = 0
	}
	if b.hi < 0 {
		most = 0
	}
	return between{left(min(b.lo+least, plenty), 0, b.lapse.hi), left(min(b.hi+most, plenty), 0, b.lapse.lo)}
}

// add counts units at an instant, on the balance owed there.
func (b *balance) add(at int64, owed between, units between, den int64) {
	if at < b.last { // before the instant of a reservation
		b.lo = min(b.lo+units.lo*den, plenty)
		b.hi = min(b.hi+units.hi*den, plenty)
		return
	}
	b.lo, b.hi, b.last = min(owed.lo+units.lo*den, plenty), min(owed.hi+units.hi*den, plenty), at
}

// fold returns the most that a bucket that drains like v owes at now for all units. They were
// admitted under limits of several forms, and a bucket counts no more than its Burst of them.
// Whenever another bucket became the writer, the balance may have been rounded up.
func (us list) fold(v *version, now int64) (level int64) {
	var last int64
	for i := range us {
		u := &us[i]
		gone, _ := v.drained(u.drains - last)
		level = min(max(level-gone, 0)+u.most*v.series.den+u.rounded, plenty)
		last = max(last, u.drains)
	}
	if now < last {
		_, more := v.drained(last - now)
		return min(level+more, plenty)
	}
	gone, _ := v.drained(now - last)
	return max(level-gone, 0)
}

// rates returns the slowest and the fastest bucket of the versions used and v.
func (l *account) rates(v *version) (slow, fast *version) {
	for _, u := range l.used {
		if u.kind != bucketKind {
			continue
		}
		if slow == nil || slow.faster(u) {
			slow = u
		}
		if fast == nil || u.faster(fast) {
			fast = u
		}
	}
	if v == nil || v.kind != bucketKind {
		return slow, fast
	}
	if slow == nil {
		return v, v
	}
	if v.faster(fast) {
		fast = v
	}
	return slow, fast
}

// owed returns the debt of the key under v at now.
//
// rules.md 4: under v every key owes at least InitialDeficit less what has drained
// since the rule's start.
func (l *account) owed(v *version, now int64) between {
	slow, fast := l.rates(v)
	o := l.bal.at(now, slow, fast)
	if l.manyForms(v) {
		o = l.folded(v, slow, now)
	}
	if o.hi > 0 {
		o.hi = min(o.hi+l.conversion(v), plenty)
	}
	if v.deficit > 0 {
		o.lo = max(o.lo, v.floor(now-l.start.lo).lo)
		o.hi = max(o.hi, v.floor(now-l.start.hi).hi)
	}
	return v.sees(o)
}

// folded returns the debt of a balance beside other forms: at most all admitted units plus the
// initial deficits.
func (l *account) folded(v, slow *version, now int64) between {
	most := l.units.fold(slow, now)
	for _, u := range v.series.versions {
		if u.deficit > 0 {
			most += u.deficit * v.series.den
		}
	}
	return between{-v.credit * v.series.den, most}
}

// floor returns the part of the initial deficit that a key still owes, since µs after the
// start.
func (v *version) floor(since int64) between {
	least, most := v.drained(since)
	whole := v.deficit * v.series.den
	return between{max(whole-most, 0), max(whole-least, 0)}
}

// bucketFits returns the first instant from now on at which cost fits: owed + cost ≤ Burst
// (rules.md 1) or, with next-waits, owed ≤ Burst and owed + cost ≤ Burst + Debt (ADR 31).
func (l *account) bucketFits(v *version, now, cost int64) between {
	if cost > v.full() {
		return l.creditFits(v, now, cost)
	}
	slow, fast := l.rates(v)
	if !v.faster(slow) && v != slow {
		slow = v // RetryAfter may be computed by the rate of the request's version
	}
	den := v.series.den
	o := l.bal.at(now, slow, fast)
	if l.manyForms(v) {
		o = l.folded(v, slow, now)
	}
	if o.hi > 0 {
		o.hi = min(o.hi+l.conversion(v), plenty)
	}
	room := (v.burst - v.needs(cost)) * den
	fits := between{now + fast.drains(o.lo-room), now + slow.drains(o.hi-room)}
	if v.deficit > 0 {
		wait := v.drains(v.deficit*den - room)
		fits.lo, fits.hi = max(fits.lo, l.start.lo+wait), max(fits.hi, l.start.hi+wait)
	}
	if l.manyVersions(v) && l.bal.last > now {
		// While a reservation is pending, takes of other versions are denied
		// until it is due.
		fits.hi = max(fits.hi, l.bal.last)
	}
	return fits
}

// creditFits returns when a cost above a full bucket fits: now, if there is credit for it, or
// never, as credit is not refilled.
func (l *account) creditFits(v *version, now, cost int64) between {
	f, o := exactly(never), l.owed(v, now)
	if over := (v.full() - cost) * v.series.den; o.lo <= over {
		if f.lo = now; o.hi <= over && !(l.manyVersions(v) && l.bal.last > now) {
			f.hi = now
		}
	}
	return f
}

// bucketRemaining returns the whole units that are left below Burst, plus those that are lent.
func (l *account) bucketRemaining(v *version, now int64) between {
	o := l.owed(v, now)
	r := between{v.left(v.unitsUp(o.hi)), v.left(v.unitsUp(o.lo))}
	if l.manyVersions(v) && l.bal.last > now {
		r.lo = 0
	}
	return r
}

// bucketReset returns the time until nothing is owed. For a key with an initial deficit it is
// not stated whether that means nothing owed, or only the deficit that every key owes.
func (l *account) bucketReset(v *version, now int64) between {
	slow, fast := l.rates(v)
	if !v.faster(slow) && v != slow {
		slow = v
	}
	o := l.owed(v, now)
	r := between{fast.drains(o.lo), slow.drains(o.hi)}
	if v.deficit > 0 {
		r.lo = 0
	}
	if o.hi < 0 { // idle when the credit has lapsed
		return between{l.bal.lapse.lo - now, l.bal.lapse.hi - now}
	}
	if o.lo < 0 {
		r = between{0, max(r.hi, l.bal.lapse.hi-now)}
	}
	return r
}

// bucketDelay returns how long a queue delays cost: until all but DelayAfter units have
// drained.
func (l *account) bucketDelay(v *version, now, cost int64) between {
	slow, fast := l.rates(v)
	if !v.faster(slow) && v != slow {
		slow = v
	}
	o, over := l.owed(v, now), (cost-v.delayAfter)*v.series.den
	return between{fast.drains(o.lo + over), slow.drains(o.hi + over)}
}

// conversion returns the most by which a balance is rounded up for another version than its
// writer: 1 µs of time (rules.md 1).
func (l *account) conversion(v *version) int64 {
	if l.writer == nil || l.writer == v {
		return 0
	}
	_, fast := l.rates(v)
	if fast == nil {
		return 0
	}
	_, up := fast.drained(1)
	return up
}
