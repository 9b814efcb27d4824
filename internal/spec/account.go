// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import "slices"

// account records the units admitted to one key under the versions of one limit.
type account struct {
	series *series
	start  between // of the rule: its first use; whether a peek is a use is not stated
	units  list
	used   []*version // versions that wrote, in the order of their first use
	writer *version   // the last of these
	owner  *version   // the last bucket of used
	bal    balance
	missed refills
	warm   warmth
	env    envelope

	blocking blocking

	// front is the frontier, the instant of the latest reservation: later requests are decided
	// no earlier. Its ends differ if another limit made the reservation wait.
	front between
	back  between // what the current refund gives back to a balance, in 1/den units

	// voided is the step after which receipts count, and void the instant up to which they may
	// give nothing back.
	voided int
	void   int64

	loose    bool // only bounds are stated from here on
	waited   bool // a reservation had to wait
	refunded bool // a histogram promises less after newer units were given back
	unsure   bool // a unit's two numbers may differ
}

// manyVersions reports whether another version than v has written.
func (l *account) manyVersions(v *version) bool {
	for _, u := range l.used {
		if u != v {
			return true
		}
	}
	return false
}

// frontOf returns the frontier as v knows it: a counter knows only the sub-window of an
// instant, which matters to limits of another quota.
func (l *account) frontOf(v *version) between {
	f := l.front
	if v.kind == counterKind && l.manyVersions(v) {
		f.lo = cell(f.lo, v.sub) * v.sub
	}
	return f
}

// manyForms reports whether a version of another form than v's has written.
func (l *account) manyForms(v *version) bool {
	for _, u := range l.used {
		if u.form != v.form {
			return true
		}
	}
	return false
}

// use records that v has written.
func (l *account) use(v *version) {
	l.writer = v
	if !slices.Contains(l.used, v) {
		l.used = append(l.used, v)
		l.env.grow(l)
	}
}

// bounded reports whether the documents state only bounds for v's decisions on
// this key, and no single decision.
func (l *account) bounded(v *version) bool {
	return l.loose || v.kind == refillKind && (l.manyVersions(v) || v.deficit > 0) || v.kind == warmKind && l.manyForms(v)
}

// fits returns the first instant from now on at which cost fits if no other request comes.
func (l *account) fits(v *version, now, cost int64) between {
	if cost > v.full()+v.credit {
		return exactly(never)
	}
	if v.kind == blockKind {
		return l.blocking.fits(now)
	}
	if l.bounded(v) {
		return between{now, never}
	}
	if l.manyForms(v) {
		// All used versions applied together allow it (rules.md 2, liveness).
		sure := l.fitsAlone(v, now, cost).hi
		for _, u := range l.used {
			sure = max(sure, l.fitsTogether(u, now, cost))
		}
		return between{now, sure}
	}
	return l.fitsAlone(v, now, cost)
}

// fitsTogether returns the instant from which cost certainly fits u, one of several forms.
func (l *account) fitsTogether(u *version, now, cost int64) int64 {
	if cost > u.full() || l.bounded(u) || u.kind == refillKind || u.kind == firstKind {
		return never
	}
	return l.fitsAlone(u, now, cost).hi
}

// fitsAlone is fits if all units count in the form of v.
func (l *account) fitsAlone(v *version, now, cost int64) between {
	switch v.kind {
	case bucketKind:
		return l.bucketFits(v, now, cost)
	case refillKind:
		return exactly(l.missed.fits(v, now, v.needs(cost)))
	case warmKind:
		return l.warmFits(v, now, cost)
	default: // windows
	}
	lo := l.windowFits(v, max(now, l.frontOf(v).lo), cost, least)
	if !l.unsure && !v.starts() && v.kind != histogramKind && l.frontOf(v).lo == l.frontOf(v).hi {
		return exactly(lo)
	}
	return between{lo, l.windowFits(v, max(now, l.frontOf(v).hi), cost, most)}
}

func (l *account) windowFits(v *version, from, cost int64, s side) int64 {
	switch v.kind {
	case fixedKind:
		return l.fixedFits(v, from, cost, s)
	case firstKind:
		end, n := l.units.opened(v, from, s)
		if n+cost > v.quota {
			return end
		}
		return from
	case counterKind:
		return l.counterFits(v, from, cost, s)
	case histogramKind:
		if s == most && !l.exactHistogram(v) {
			if l.refunded {
				return never
			}
			return l.units.logFits(v.window, sureLimit(v.quota, cost, l.precision(v)), from, s)
		}
	default: // a log
	}
	return l.units.logFits(v.window, v.quota-cost, from, s)
}

// exactHistogram reports whether the histogram equals the exact log, as it does if Quota ≤ k.
func (l *account) exactHistogram(v *version) bool {
	k := l.precision(v)
	for _, u := range l.used {
		if u.units()+u.debt > k {
			return false
		}
	}
	return v.quota+v.debt <= k
}

func (l *account) precision(v *version) int64 {
	k := v.precision
	for _, u := range l.used {
		if u.kind == histogramKind {
			k = min(k, u.precision)
		}
	}
	return k
}

// held returns how many units v counts at now.
func (l *account) held(v *version, now int64) between {
	switch v.kind {
	case bucketKind:
		o := l.owed(v, now)
		return between{v.unitsUp(o.lo), v.unitsUp(o.hi)}
	case refillKind:
		return exactly(l.missed.at(v, now).missing)
	case warmKind:
		return exactly(l.warm.owed(v, now))
	default: // windows
	}
	lo := l.windowHeld(v, max(now, l.frontOf(v).lo), least)
	if !l.unsure && !v.starts() && v.kind != histogramKind && l.frontOf(v).lo == l.frontOf(v).hi {
		return exactly(lo)
	}
	hi := l.windowHeld(v, max(now, l.frontOf(v).lo), most)
	if l.frontOf(v).lo != l.frontOf(v).hi { // the units count at one of two instants
		at := max(now, l.frontOf(v).hi)
		lo, hi = min(lo, l.windowHeld(v, at, least)), max(hi, l.windowHeld(v, at, most))
	}
	return between{lo, hi}
}

func (l *account) windowHeld(v *version, at int64, s side) int64 {
	switch v.kind {
	case fixedKind:
		return l.inWindow(v, cell(at, v.window), s)
	case firstKind:
		_, n := l.units.opened(v, at, s)
		return n
	case counterKind:
		whole, oldest := l.counted(v, at, s)
		return whole + v.weighed(oldest, at)
	default: // a log and a histogram
	}
	n := l.units.since(at-v.window, s)
	if v.kind == histogramKind && s == most && !l.exactHistogram(v) {
		if l.refunded {
			return n + v.quota + v.debt
		}
		return mulDivUp(n, v.precision-1, v.precision-2)
	}
	return n
}

// remaining returns how many units a take at now may spend.
func (l *account) remaining(v *version, now int64) between {
	if v.kind == blockKind {
		return l.blocking.remaining(v, now)
	}
	if l.bounded(v) {
		return between{0, v.full() + v.credit}
	}
	if l.manyForms(v) {
		sure := l.remainingAlone(v, now).lo
		for _, u := range l.used {
			if l.bounded(u) || u.kind == refillKind || u.kind == firstKind {
				return between{0, v.full() + v.credit}
			}
			sure = min(sure, l.remainingAlone(u, now).lo)
		}
		return between{sure, v.full() + v.credit}
	}
	return l.remainingAlone(v, now)
}

func (l *account) remainingAlone(v *version, now int64) between {
	if v.kind == bucketKind {
		return l.bucketRemaining(v, now)
	}
	h := l.held(v, now)
	r := between{v.left(h.hi), v.left(h.lo)}
	if v.kind == warmKind { // a reservation moves only the debt
		if l.manyVersions(v) && l.warm.last > now {
			r.lo = 0
		}
		return r
	}
	if v.kind == histogramKind && h.lo != h.hi && !l.refunded {
		n, k := l.units.since(max(now, l.frontOf(v).hi)-v.window, most), l.precision(v)
		r.lo = max(v.quota-mulDivUp(n, k-1, k-2), 0)
	}
	if l.frontOf(v).hi > now { // no take overtakes a reservation
		r.lo = 0
		if l.frontOf(v).lo > now {
			r.hi = 0
		}
	}
	return r
}

// reset returns the time until the key is idle.
func (l *account) reset(v *version, now int64) between {
	if v.kind == blockKind {
		return l.blocking.reset(now)
	}
	if l.bounded(v) || l.manyForms(v) {
		return between{0, never}
	}
	switch v.kind {
	case bucketKind:
		return l.bucketReset(v, now)
	case refillKind:
		return exactly(l.missed.reset(v, now))
	case warmKind:
		return exactly(l.warm.reset(now))
	default: // windows
	}
	r := between{l.windowReset(v, now, least), l.windowReset(v, now, most)}
	if l.frontOf(v).hi > now && l.waited {
		// A frontier may stay after its units were given back.
		r.hi = max(r.hi, l.frontOf(v).hi+v.window+v.sub-now)
	}
	if v.starts() { // as a bucket's initial level: either equals a new key
		r.hi = max(r.hi, (cell(l.start.hi, v.sub)+v.parts+1)*v.sub-now)
		r.lo = 0
	}
	return r
}

func (l *account) windowReset(v *version, now int64, s side) int64 {
	at, ok := l.units.newest(s)
	if !ok {
		return 0
	}
	end := at + v.window
	switch v.kind {
	case fixedKind:
		end = (cell(at, v.window) + 1) * v.window
	case firstKind:
		end, _ = l.units.opened(v, at, s)
	case counterKind:
		end = (cell(at, v.sub)+1)*v.sub + v.window
	default: // a log and a histogram
	}
	return max(end-now, 0)
}
