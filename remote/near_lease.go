// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// moment is what this node's clocks show: ns since some beginning.
type moment struct{ mono, wall int64 }

// since returns how long ago n was, at least. The monotonic clock may have
// stood still while the machine slept; the wall clock may be set.
func (m moment) since(n moment) int64 { return max(m.mono-n.mono, m.wall-n.wall) }

// atLeast returns how long ago n was at the least by either clock.
func (m moment) atLeast(n moment) int64 { return min(m.mono-n.mono, m.wall-n.wall) }

// shortened returns how many ns of this node's clock pass for certain before ns
// of the store's have.
func shortened(ns int64) int64 { return ns - ns/bounds.Drift - 1 }

// lengthened returns how many ns of this node's clock pass at the most before
// ns of the store's have.
func lengthened(ns int64) int64 { return ns + ns/(bounds.Drift-1) + 1 }

// whole returns ns as a Duration of whole µs.
func whole(ns int64) time.Duration {
	return time.Duration(max(ns, 0)).Truncate(time.Microsecond)
}

// grant is units of one grant.
type grant struct {
	sent, heard moment // before the request, after the answer
	from        int64  // ns after heard before which they may not be spent: 0 unless reserved
	usable      int64  // ns after sent in which the units may be spent
	left        int64
	refundable  bool
	grant       sluice.Decision
	outcomes    []sluice.Outcome
}

// Most grants that a hold has, and most that wait to be given back.
const mostGrants = 8

// hold is the units of one key that a node may spend under one plan, and how
// many of them are in demand. It has no clock and no lock.
type hold struct {
	next   *hold // of the same key, under other limits
	facts  *facts
	key    string           // set while there is something to give back
	grants []grant          // oldest first
	spare  []sluice.Request // refunds of what may no longer be spent
	lost   int64            // units of which neither came true

	since       moment // start of the span of a TTL in which demand is counted
	now, before int64  // units demanded in it and in the one before
	room        int64  // what the store last said Remaining was
	heard       bool   // whether it ever did
	dry         bool   // the store had nothing left, nor enough for another lease since

	denied denial
}

// demand notes that cost is wanted.
func (h *hold) demand(at moment, cost int64) {
	switch span, ttl := at.since(h.since), 1000*h.facts.ttl; {
	case span >= 2*ttl:
		h.since, h.now, h.before = at, 0, 0
	case span >= ttl:
		h.since, h.now, h.before = at, 0, h.now
	}
	h.now = min(h.now+cost, sluice.MaxQuota)
}

// first returns the first units in hand that cover cost: those that may be spent
// now or, if there are none, those of which the turn has not come.
func (h *hold) first(at moment, cost int64) (now, later *grant) {
	h.expire(at)
	for i := range h.grants {
		switch p := &h.grants[i]; {
		case p.left < cost:
		case p.wait(at) == 0:
			return p, nil
		case later == nil:
			later = p
		}
	}
	return nil, later
}

// take decides a take of cost at a moment if there are units for it, or will be.
func (h *hold) take(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	now, later := h.first(at, cost)
	switch {
	case now != nil:
		now.left -= cost
		d = now.describe(at, out)
		d.Spent = cost
		h.expire(at)
		return d, true
	case later != nil:
		return later.deny(at, out), true
	}
	return d, false
}

// peek decides as take would and spends nothing, if units are in hand.
func (h *hold) peek(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	if now, _ := h.first(at, cost); now != nil {
		return now.describe(at, out), true
	}
	return d, false
}

// wait returns for how long p may not be spent yet, in ns.
func (p *grant) wait(at moment) int64 { return max(p.from-at.atLeast(p.heard), 0) }

// describe describes the limits as far as this node knows: what the store had left
// at the grant and what is left of that.
func (p *grant) describe(at moment, out []sluice.Outcome) sluice.Decision {
	passed := whole(at.since(p.heard))
	d := p.grant
	d.Remaining += p.left
	d.ResetAfter = max(d.ResetAfter-passed, 0)
	d.Delay = 0 // the take that reserved them has waited
	if len(out) > 0 {
		for i, o := range p.outcomes {
			o.Remaining += p.left
			o.ResetAfter = max(o.ResetAfter-passed, 0)
			out[i] = o
		}
	}
	return d
}

// deny describes the limits to a take that comes before the units' turn.
func (p *grant) deny(at moment, out []sluice.Outcome) sluice.Decision {
	d := p.describe(at, out)
	retry := whole(p.wait(at) + 999)
	d.Allowed, d.Remaining, d.RetryAfter = false, 0, retry
	d.At -= sluice.Instant(p.grant.Delay.Microseconds())
	d.Due = d.At
	if len(out) > 0 {
		o := &out[d.Binding]
		o.Allowed, o.Remaining, o.RetryAfter = false, 0, retry
	}
	return d
}

// expire retires grants that may no longer be spent, and drops those that are.
func (h *hold) expire(at moment) {
	for i := 0; i < len(h.grants); {
		if p := &h.grants[i]; p.left > 0 && at.since(p.sent) < p.usable {
			i++
			continue
		}
		h.retire(&h.grants[i])
		h.grants = slices.Delete(h.grants, i, i+1)
	}
}

// retire keeps p to be given back. Nothing of it is spent any more.
func (h *hold) retire(p *grant) {
	switch {
	case p.left == 0:
	case p.refundable && len(h.spare) < mostGrants:
		h.spare = append(h.spare, h.refund(p))
	default:
		h.lost += p.left
	}
}

// refund returns what gives p back, but for its key.
func (h *hold) refund(p *grant) sluice.Request {
	return sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: h.facts.plan, Cost: p.left}, At: p.grant.At}
}

// drop loses all units of h.
func (h *hold) drop() {
	for i := range h.grants {
		h.lost += h.grants[i].left
	}
	for i := range h.spare {
		h.lost += h.spare[i].Cost
	}
	h.grants, h.spare = nil, nil
}

// quiet reports whether h has no units to spend, and nobody has asked for any.
func (h *hold) quiet(at moment) bool {
	h.expire(at)
	return len(h.grants) == 0 && at.since(h.since) >= 2*1000*h.facts.ttl
}

// spares takes what is to be given back of h.
func (h *hold) spares() []sluice.Request {
	reqs := h.spare
	for i := range reqs {
		reqs[i].Key = h.key
	}
	h.spare = nil
	return reqs
}

// question is what the store is asked so that a take of cost is decided, and
// more may be leased: OpTakeUpTo, OpTake or OpReserve of units.
type question struct {
	op          sluice.Op
	cost, units int64
	sent        moment
	outcomes    sluice.Outcomes
}

// more reports whether q asks for more than its take needs, now or later.
func (q *question) more() bool { return q.units > q.cost || q.op == sluice.OpReserve }

// ask returns what to ask the store for.
func (h *hold) ask(cost int64) (op sluice.Op, units int64) {
	f := h.facts
	// What was wanted within a TTL. Where unused units are worth little when
	// they come back, half of that: it will nearly always be used.
	units = max(h.now, h.before)
	if !f.returns {
		units = (units + 1) / 2
	}
	units = min(units, f.units)
	if f.nodes > 0 {
		room := f.full
		if h.heard {
			room = h.room
		}
		units = min(units, max(room/(2*f.nodes), 1))
	}
	switch {
	case h.dry:
		// A take that finds nothing asks for a turn, or all would come again for
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

// answered takes note of the store's answer to q, heard at a moment, and
// returns what it means for the take that asked. It reports false if nothing is
// decided, because more was asked for than the take needs: then q must be sent
// again for no more than that.
func (h *hold) answered(q *question, heard moment, d sluice.Decision) (sluice.Decision, bool) {
	h.heard, h.room = true, d.Remaining
	if !d.Allowed {
		known := q.units == q.cost || q.op == sluice.OpTakeUpTo
		h.dry = h.dry || known
		return d, known
	}
	h.dry = h.dry && d.Remaining < q.units
	p := grant{sent: q.sent, heard: heard, left: d.Spent, grant: d, outcomes: q.outcomes}
	if d.Delay > 0 {
		p.from = lengthened(int64(d.Delay))
		p.outcomes = slices.Clone(p.outcomes) // q's will report the denial
	} else {
		p.left -= q.cost
	}
	p.grant.Spent, p.grant.Due = 0, d.At
	if p.left > 0 {
		h.keep(&p)
	}
	if d.Delay > 0 {
		return p.deny(heard, q.outcomes), true
	}
	d.Spent = q.cost
	d.Remaining += p.left
	return d, true
}

// keep takes units, or retires them if they came too late.
func (h *hold) keep(p *grant) {
	ttl, cut := h.facts.usable(int64(p.grant.At), p.grant.Delay.Microseconds(), p.outcomes)
	p.usable = shortened(int64(p.grant.Delay) + ttl*1000)
	p.refundable = !cut
	if p.heard.since(p.sent) < p.usable-p.from && len(h.grants) < mostGrants {
		h.grants = append(h.grants, *p)
	} else {
		h.retire(p)
	}
}
