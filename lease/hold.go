// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice"
)

// moment is what this node's clocks show: ns since some beginning.
type moment struct{ mono, wall int64 }

// since returns how long ago n was, at least. The monotonic clock may have
// stood still while the machine slept; the wall clock may be set.
func (m moment) since(n moment) int64 { return max(m.mono-n.mono, m.wall-n.wall) }

// atLeast returns how long ago n was at the least by either clock.
func (m moment) atLeast(n moment) int64 { return min(m.mono-n.mono, m.wall-n.wall) }

// parcel is units of one grant.
type parcel struct {
	sent, heard moment // before the request, after the answer
	from        int64  // ns after heard before which they may not be spent: 0 unless reserved
	usable      int64  // ns after sent in which the units may be spent
	left        int64
	refundable  bool
	grant       sluice.Decision
	outcomes    []sluice.Outcome
}

// denial is what the store last denied.
type denial struct {
	sent, heard moment
	lasts       int64 // ns after sent in which cost does not fit; 0: nothing is known
	cost        int64
	decision    sluice.Decision
	outcomes    []sluice.Outcome
}

// Most parcels that a hold has, and most that wait to be given back.
const mostParcels = 8

// MaxDenial is how long a denial is remembered at most.
const MaxDenial = time.Second

// hold is what a node knows of one key: units that it may spend, and what was
// denied. It has no clock and no lock. The zero value knows nothing.
type hold struct {
	parcels []parcel // oldest first
	spare   []parcel // that may no longer be spent, to be given back
	lost    int64    // units of which neither came true

	since       moment // start of the span of a TTL in which demand is counted
	now, before int64  // units demanded in it and in the one before
	room        int64  // what the store last said Remaining was
	heard       bool   // whether it ever did
	dry         bool   // the store had nothing left, nor enough for another lease since

	denied denial
	epoch  uint64 // counts what could have made a denial wrong
}

// demand notes that cost is wanted.
func (h *hold) demand(t *terms, at moment, cost int64) {
	switch span := at.since(h.since); {
	case span < 0 || span >= 2*1000*t.ttl:
		h.since, h.now, h.before = at, 0, 0
	case span >= 1000*t.ttl:
		h.since, h.now, h.before = at, 0, h.now
	}
	h.now = min(h.now+cost, sluice.MaxQuota)
}

// take decides a take of cost at a moment if that can be done here.
func (h *hold) take(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	h.expire(at)
	var reserved *parcel
	for i := range h.parcels {
		p := &h.parcels[i]
		switch {
		case p.left < cost:
		case p.wait(at) > 0:
			if reserved == nil {
				reserved = p
			}
		default:
			p.left -= cost
			d = p.tell(at, out)
			d.Spent = cost
			if p.left == 0 {
				h.remove(i)
			}
			return d, true
		}
	}
	if reserved != nil {
		return reserved.deny(at, out), true
	}
	return h.denied.tell(at, cost, out)
}

// wait returns for how long p may not be spent yet, in ns.
func (p *parcel) wait(at moment) int64 { return max(p.from-at.atLeast(p.heard), 0) }

// deny describes the limits to a take that comes before the units' turn.
func (p *parcel) deny(at moment, out []sluice.Outcome) sluice.Decision {
	d := p.tell(at, out)
	retry := whole(p.wait(at) + 999)
	d.Allowed, d.Remaining, d.RetryAfter = false, 0, retry
	d.At -= sluice.Instant(p.grant.Delay.Microseconds())
	d.Delay, d.Due = 0, d.At
	if len(out) > 0 {
		o := &out[d.Binding]
		o.Allowed, o.Remaining, o.RetryAfter = false, 0, retry
	}
	return d
}

// peek decides as take would and spends nothing, if units are in hand.
func (h *hold) peek(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	h.expire(at)
	for i := range h.parcels {
		if p := &h.parcels[i]; p.left >= cost && p.wait(at) == 0 {
			return p.tell(at, out), true
		}
	}
	return d, false
}

// tell describes the limits as far as this node knows: what the store had left
// at the grant and what is left of that.
func (p *parcel) tell(at moment, out []sluice.Outcome) sluice.Decision {
	passed := whole(at.since(p.heard))
	d := p.grant
	d.Remaining += p.left
	d.ResetAfter = max(d.ResetAfter-passed, 0)
	if len(out) > 0 {
		for i, o := range p.outcomes {
			o.Remaining += p.left
			o.ResetAfter = max(o.ResetAfter-passed, 0)
			out[i] = o
		}
	}
	return d
}

// tell denies cost if that is known.
func (n *denial) tell(at moment, cost int64, out []sluice.Outcome) (sluice.Decision, bool) {
	if n.lasts == 0 || cost < n.cost || at.since(n.sent) >= n.lasts {
		return sluice.Decision{}, false
	}
	if cost > n.cost {
		return sluice.Decision{}, false // denied too, but for how long is not known
	}
	passed := whole(at.since(n.heard))
	later := func(d time.Duration) time.Duration {
		if d == sluice.Never || d == 0 {
			return d
		}
		return max(d-passed, time.Microsecond)
	}
	d := n.decision
	d.RetryAfter, d.ResetAfter = later(d.RetryAfter), later(d.ResetAfter)
	d.At += sluice.Instant(passed.Microseconds())
	d.Due = d.At
	if len(out) > 0 {
		for i, o := range n.outcomes {
			o.RetryAfter, o.ResetAfter = later(o.RetryAfter), later(o.ResetAfter)
			out[i] = o
		}
	}
	return d, true
}

// whole returns ns as a Duration of whole µs.
func whole(ns int64) time.Duration {
	return time.Duration(max(ns, 0)).Truncate(time.Microsecond)
}

// expire puts aside what may no longer be spent.
func (h *hold) expire(at moment) {
	for i := 0; i < len(h.parcels); {
		if p := &h.parcels[i]; at.since(p.sent) < p.usable {
			i++
			continue
		}
		h.aside(h.parcels[i])
		h.remove(i)
	}
}

func (h *hold) remove(i int) {
	h.parcels = append(h.parcels[:i], h.parcels[i+1:]...)
}

// aside keeps p to be given back. Nothing of it is spent any more.
func (h *hold) aside(p parcel) {
	switch {
	case p.left == 0:
	case p.refundable && len(h.spare) < mostParcels:
		h.spare = append(h.spare, p)
	default:
		h.lost += p.left
	}
}

// ask returns what to ask the store for, so that cost is decided and more may
// be leased: OpTakeUpTo, OpTake or OpReserve of units.
func (h *hold) ask(t *terms, cost int64) (op sluice.Op, units int64) {
	// What was wanted within a TTL. Where unused units are worth little when
	// they come back, half of that: it will nearly always be used.
	units = max(h.now, h.before)
	if !t.returns {
		units = (units + 1) / 2
	}
	units = min(units, t.units)
	if t.nodes > 0 {
		room := t.full
		if h.heard {
			room = h.room
		}
		units = min(units, max(room/(2*t.nodes), 1))
	}
	switch {
	case h.dry:
		// Whoever finds nothing asks for a turn, or all would come again for
		// every unit that comes free, and all but one in vain.
		return sluice.OpReserve, max(units, cost)
	case units <= cost:
		return sluice.OpTake, cost
	case cost == 1:
		return sluice.OpTakeUpTo, units
	case h.heard && h.room < units:
		return sluice.OpTake, cost
	default:
		return sluice.OpTake, units
	}
}

// flight is one question to the store.
type flight struct {
	cost, units int64
	op          sluice.Op
	sent        moment
	epoch       uint64
	outcomes    sluice.Outcomes
}

// answered takes note of the store's answer to f, heard at a moment, and
// returns what it means for the take that asked. It reports false if nothing is
// decided, because more was asked for than the take needs: then f must be sent
// again for no more than that.
func (h *hold) answered(t *terms, f *flight, heard moment, d sluice.Decision) (sluice.Decision, bool) {
	if d.Degraded {
		return degraded(f, d)
	}
	h.heard, h.room = true, d.Remaining
	if !d.Allowed {
		if f.units > f.cost && f.op != sluice.OpTakeUpTo {
			return d, false
		}
		h.dry = true
		h.deny(t, f, heard, d)
		return d, true
	}
	h.denied = denial{}
	h.dry = h.dry && d.Remaining < f.units
	p := parcel{sent: f.sent, heard: heard, left: d.Spent, grant: d, outcomes: f.outcomes}
	if d.Delay > 0 {
		p.from = lengthened(int64(d.Delay))
		p.outcomes = slices.Clone(p.outcomes) // f's will tell of the denial
	} else {
		p.left -= f.cost
	}
	p.grant.Spent, p.grant.Due = 0, d.At
	if p.left > 0 {
		ttl, cut := t.usable(int64(d.At), d.Delay.Microseconds(), f.outcomes)
		p.usable = shortened(int64(d.Delay) + ttl*1000)
		p.refundable = !cut
		if heard.since(f.sent) < p.usable-p.from && len(h.parcels) < mostParcels {
			h.parcels = append(h.parcels, p)
		} else {
			h.aside(p)
		}
	}
	if d.Delay > 0 {
		return p.deny(heard, f.outcomes), true
	}
	d.Spent = f.cost
	d.Remaining += p.left
	return d, true
}

// degraded returns what the decision of a failure policy means for the take
// that asked. Nothing of it is leased: the store behind knows nothing of it.
func degraded(f *flight, d sluice.Decision) (sluice.Decision, bool) {
	switch {
	case !d.Allowed:
		return d, f.units == f.cost || f.op == sluice.OpTakeUpTo
	case d.Delay > 0:
		d.Allowed, d.Spent, d.RetryAfter = false, 0, d.Delay
		d.At -= sluice.Instant(d.Delay.Microseconds())
		d.Delay, d.Due = 0, d.At
	default:
		d.Spent = f.cost
	}
	return d, true
}

func (h *hold) deny(t *terms, f *flight, heard moment, d sluice.Decision) {
	if !t.deniable || f.epoch != h.epoch {
		return
	}
	h.denied = denial{
		sent: f.sent, heard: heard, cost: f.cost, decision: d, outcomes: f.outcomes,
		lasts: shortened(int64(min(d.RetryAfter, MaxDenial))),
	}
}

// shortened returns how many ns of this node's clock pass for certain before ns
// of the store's have.
func shortened(ns int64) int64 { return ns - ns/Drift - 1 }

// lengthened returns how many ns of this node's clock pass at the most before
// ns of the store's have.
func lengthened(ns int64) int64 { return ns + ns/(Drift-1) + 1 }

// unsound notes that units may be given back: what was denied may fit.
func (h *hold) unsound() {
	h.epoch++
	h.denied = denial{}
}

// idle reports whether nothing would be lost by forgetting h.
func (h *hold) idle(t *terms, at moment) bool {
	h.expire(at)
	return len(h.parcels) == 0 && len(h.spare) == 0 && at.since(h.since) >= 2*1000*t.ttl &&
		(h.denied.lasts == 0 || at.since(h.denied.sent) >= h.denied.lasts)
}
