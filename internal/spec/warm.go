// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import "math/bits"

// warmth is a bucket that warms up (ADR 31): what was taken is paid for at an
// instant, and so much of the warm-up was used then. A key that owes nothing uses
// a µs less with each µs. All of it is one rate's.
type warmth struct {
	paid instant
	used int64
	last int64   // due instant of the latest reservation
	back instant // what the refund at hand gives back
}

// instant is an instant or a length of time in µs and parts of one, of which each has
// as many as the rate, in lowest terms, has units.
type instant struct{ micros, part int64 }

func (i instant) ceil() int64 { return i.micros + min(i.part, 1) }

func (i instant) less(o instant) bool {
	return i.micros < o.micros || i.micros == o.micros && i.part < o.part
}

func (v *version) plus(i, o instant) instant {
	i.micros, i.part = i.micros+o.micros, i.part+o.part
	if i.part >= v.form.parts {
		i.micros, i.part = i.micros+1, i.part-v.form.parts
	}
	return i
}

func (v *version) minus(i, o instant) instant {
	i.micros, i.part = i.micros-o.micros, i.part-o.part
	if i.part < 0 {
		i.micros, i.part = i.micros-1, i.part+v.form.parts
	}
	return i
}

// lasting is how long n units of a warm key last.
func (v *version) lasting(n int64) instant {
	hi, lo := bits.Mul64(uint64(n), uint64(v.form.window))
	q, rem := bits.Div64(hi, lo, uint64(v.form.parts))
	return instant{int64(q), int64(rem)}
}

// longer is how much longer all units last of a key that has used so much of its
// warm-up W: 2·(W − used − W/2)²/W where that is more than half, rounded down.
func (v *version) longer(used int64) int64 {
	w := v.form.warmUp
	if 2*used >= w {
		return 0
	}
	hi, lo := bits.Mul64(uint64(w-2*used), uint64(w-2*used))
	q, _ := bits.Div64(hi, lo, uint64(2*w))
	return int64(q)
}

// settle is w at now, or a new key where it equals one: then a
// reservation that was given back is forgotten, too.
func (w warmth) settle(now int64) warmth {
	if w.paid.ceil()+w.used <= now {
		return warmth{paid: instant{micros: now}}
	}
	return w
}

// at is w at now, where it owes nothing if not more.
func (w warmth) at(now int64) warmth {
	if now >= w.paid.ceil() {
		w.used, w.paid = max(w.used-(now-w.paid.ceil()), 0), instant{micros: now}
	}
	return w
}

// spend counts units at an instant.
func (w warmth) spend(v *version, now, at, units int64) warmth {
	w = w.settle(now).at(at)
	after, longer := v.plus(w.paid, v.lasting(units)), v.longer(w.used)
	w.used = min(w.used+after.ceil()-w.paid.ceil(), v.form.warmUp)
	w.paid = after
	w.paid.micros += longer - v.longer(w.used)
	if at > now {
		w.last = max(w.last, at)
	}
	return w
}

// owes returns how long it takes until all is paid for.
func (w warmth) owes(v *version, now int64) instant {
	if now >= w.paid.ceil() {
		return instant{}
	}
	return v.minus(w.paid, instant{micros: now})
}

// owed returns the units that are owed, a part of one as a whole one.
func (w warmth) owed(v *version, now int64) int64 { return v.unitsOf(w.owes(v, now)) }

// unitsOf returns the least number of units that last as long.
func (v *version) unitsOf(d instant) int64 {
	n, _ := mulDiv(d.micros, v.form.parts, v.form.window)
	for v.lasting(n).less(d) {
		n++
	}
	return n
}

func (w warmth) reset(now int64) int64 { return max(w.paid.ceil()+w.used-now, 0) }

// less takes off what is given back. Units given back have warmed the key.
func (w warmth) less(v *version, now int64) warmth {
	if w.paid = v.minus(w.paid, w.back); w.paid.ceil() <= now {
		w.last = 0
	}
	return w
}

// warmFits returns when owed + cost ≤ Burst, as in any bucket.
func (l *account) warmFits(v *version, now, cost int64) between {
	l.warm = l.warm.settle(now)
	at := v.minus(l.warm.paid, v.lasting(v.burst-v.needs(cost))).ceil()
	fits := exactly(max(now, at))
	if l.manyVersions(v) && l.warm.last > now { // nobody overtakes another's reservation
		fits.hi = max(fits.hi, l.warm.last)
	}
	return fits
}

// warmBack is what a bucket gives back: what units last when warm, less what has
// drained since, or until the last reservation. Of a balance that another version has
// written since it is nothing.
func (l *account) warmBack(v *version, now, at, held, want int64) between {
	l.warm = l.warm.settle(now)
	gone := max(now-at, 0)
	if l.warm.last > max(at, now) {
		gone = max(gone, l.warm.last-at)
	}
	back := v.minus(v.lasting(min(held, v.burst+v.debt)), instant{micros: gone})
	for _, most := range []instant{v.lasting(want), l.warm.owes(v, max(l.warm.last, now))} {
		if most.less(back) {
			back = most
		}
	}
	if back.micros < 0 {
		back = instant{}
	}
	l.warm.back = back
	n := v.unitsOf(back)
	if l.manyVersions(v) {
		return between{0, n}
	}
	return exactly(n)
}
