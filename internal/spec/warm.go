// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import "math/bits"

// warmth is the state of a bucket that warms up (ADR 31): the instant at which all units are
// paid for, and the part of the warm-up that is used then. While a key owes nothing, the used
// part falls by a µs in each µs. All versions have one rate.
type warmth struct {
	paid instant
	used int64
	last int64   // due instant of the latest reservation
	back instant // what the current refund gives back
}

// instant is an instant or a length of time in µs and parts of a µs. A µs has as many parts as
// the rate, in lowest terms, has units.
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

// lasting returns how long n units of a warm key last.
func (v *version) lasting(n int64) instant {
	hi, lo := bits.Mul64(uint64(n), uint64(v.form.window))
	q, rem := bits.Div64(hi, lo, uint64(v.form.parts))
	return instant{int64(q), int64(rem)}
}

// longer returns the additional time that all units of a key take that has used a part of its
// warm-up W: 2·(W − used − W/2)²/W, rounded down, if less than half is used, else 0.
func (v *version) longer(used int64) int64 {
	w := v.form.warmUp
	if 2*used >= w {
		return 0
	}
	hi, lo := bits.Mul64(uint64(w-2*used), uint64(w-2*used))
	q, _ := bits.Div64(hi, lo, uint64(2*w))
	return int64(q)
}

// settle returns w, or the state of a new key if w equals that at now. A refunded reservation
// is then forgotten, too.
func (w warmth) settle(now int64) warmth {
	if w.paid.ceil()+w.used <= now {
		return warmth{paid: instant{micros: now}}
	}
	return w
}

// at returns w at now, or w itself if it owes units at now.
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

// owes returns the time until all units are paid for.
func (w warmth) owes(v *version, now int64) instant {
	if now >= w.paid.ceil() {
		return instant{}
	}
	return v.minus(w.paid, instant{micros: now})
}

// owed returns the owed units, rounded up.
func (w warmth) owed(v *version, now int64) int64 { return v.unitsOf(w.owes(v, now)) }

// unitsOf returns the least number of units that last at least d.
func (v *version) unitsOf(d instant) int64 {
	n, _ := mulDiv(d.micros, v.form.parts, v.form.window)
	for v.lasting(n).less(d) {
		n++
	}
	return n
}

func (w warmth) reset(now int64) int64 { return max(w.paid.ceil()+w.used-now, 0) }

// less subtracts what the refund gives back. The key stays as warm as the units have made it.
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
	if l.manyVersions(v) && l.warm.last > now { // no take overtakes the reservation of another version
		fits.hi = max(fits.hi, l.warm.last)
	}
	return fits
}

// warmBack returns the units that a bucket gives back: the time that the units last when warm,
// less the time since, or until the last reservation. It may be nothing if another version has
// written the balance.
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
