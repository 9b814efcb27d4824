// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// moment is a reading of this node's clocks, in ns since a fixed instant.
type moment struct{ mono, wall int64 }

// since returns the time since n by the clock that shows more. The monotonic clock stands
// still while the machine sleeps; the wall clock may be set.
func (m moment) since(n moment) int64 { return max(m.mono-n.mono, m.wall-n.wall) }

// atLeast returns the time since n by the clock that shows less.
func (m moment) atLeast(n moment) int64 { return min(m.mono-n.mono, m.wall-n.wall) }

// shortened returns the least ns of this node's clock that pass in ns of the store's.
func shortened(ns int64) int64 { return ns - ns/bounds.Drift - 1 }

// lengthened returns the most ns of this node's clock that pass in ns of the store's.
func lengthened(ns int64) int64 { return ns + ns/(bounds.Drift-1) + 1 }

// whole returns ns as a Duration of whole µs.
func whole(ns int64) time.Duration {
	return time.Duration(max(ns, 0)).Truncate(time.Microsecond)
}

// grant holds the units of one grant of the store.
type grant struct {
	sent, heard moment // before the request, after the answer
	from        int64  // ns after heard from which they may be spent: 0 unless reserved
	usable      int64  // ns after sent in which the units may be spent
	left        int64
	refundable  bool
	grant       sluice.Decision
	outcomes    []sluice.Outcome
}

// mostGrants is how many grants a lease has at the most, and how many refunds.
const mostGrants = 8

// lease holds the units of one key that this node may spend under one plan, and the
// demand for them. It has no clock and no lock.
type lease struct {
	next    *lease // of the same key, under other limits
	info    *planInfo
	key     string           // set while there are grants or refunds
	grants  []grant          // oldest first
	refunds []sluice.Request // of units that may no longer be spent
	lost    int64            // units neither spent nor refunded, not yet counted

	since       moment // when the TTL began in which demand is counted
	now, before int64  // units demanded in this TTL and in the one before
	room        int64  // Remaining of the store's last answer
	roomKnown   bool   // whether there was one
	dry         bool   // the store had nothing left, and not enough for a lease since

	denied denial
}

// demand counts cost as demanded.
func (l *lease) demand(at moment, cost int64) {
	switch span, ttl := at.since(l.since), 1000*l.info.ttl; {
	case span >= 2*ttl:
		l.since, l.now, l.before = at, 0, 0
	case span >= ttl:
		l.since, l.now, l.before = at, 0, l.now
	}
	l.now = min(l.now+cost, sluice.MaxQuota)
}

// first returns the oldest grant that covers cost and may be spent now, else the oldest
// that may be spent later.
func (l *lease) first(at moment, cost int64) (now, later *grant) {
	l.expire(at)
	for i := range l.grants {
		switch p := &l.grants[i]; {
		case p.left < cost:
		case p.wait(at) == 0:
			return p, nil
		case later == nil:
			later = p
		}
	}
	return nil, later
}

// take decides a take of cost if there are units for it now or later.
func (l *lease) take(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	now, later := l.first(at, cost)
	switch {
	case now != nil:
		now.left -= cost
		d = now.describe(at, out)
		d.Spent = cost
		l.expire(at)
		return d, true
	case later != nil:
		return later.deny(at, out), true
	}
	return d, false
}

// peek decides as take would, without spending, if there are units for it now.
func (l *lease) peek(at moment, cost int64, out []sluice.Outcome) (d sluice.Decision, ok bool) {
	if now, _ := l.first(at, cost); now != nil {
		return now.describe(at, out), true
	}
	return d, false
}

// wait returns the ns until p may be spent.
func (p *grant) wait(at moment) int64 { return max(p.from-at.atLeast(p.heard), 0) }

// describe returns the decision of an allowed take: Remaining is the number of units that the
// store had left at the grant, plus those left of the grant.
func (p *grant) describe(at moment, out []sluice.Outcome) sluice.Decision {
	passed := whole(at.since(p.heard))
	d := p.grant
	d.Remaining += p.left
	d.ResetAfter = max(d.ResetAfter-passed, 0)
	d.Delay = 0 // the take that reserved the units has waited
	if len(out) > 0 {
		for i, o := range p.outcomes {
			o.Remaining += p.left
			o.ResetAfter = max(o.ResetAfter-passed, 0)
			out[i] = o
		}
	}
	return d
}

// deny returns the decision of a take before p may be spent.
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

// expire retires the grants that may no longer be spent, and removes those that are used up.
func (l *lease) expire(at moment) {
	for i := 0; i < len(l.grants); {
		if p := &l.grants[i]; p.left > 0 && at.since(p.sent) < p.usable {
			i++
			continue
		}
		l.retire(&l.grants[i])
		l.grants = slices.Delete(l.grants, i, i+1)
	}
}

// retire turns p into a refund. Its units are no longer spent here.
func (l *lease) retire(p *grant) {
	switch {
	case p.left == 0:
	case p.refundable && len(l.refunds) < mostGrants:
		l.refunds = append(l.refunds, l.refund(p))
	default:
		l.lost += p.left
	}
}

// refund returns the refund of p, without its key.
func (l *lease) refund(p *grant) sluice.Request {
	return sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: l.info.plan, Cost: p.left}, At: p.grant.At}
}

// dropUnits loses all units of l.
func (l *lease) dropUnits() {
	for i := range l.grants {
		l.lost += l.grants[i].left
	}
	for i := range l.refunds {
		l.lost += l.refunds[i].Cost
	}
	l.grants, l.refunds = nil, nil
}

// idle reports whether l has no units to spend and no demand.
func (l *lease) idle(at moment) bool {
	l.expire(at)
	return len(l.grants) == 0 && at.since(l.since) >= 2*1000*l.info.ttl
}

// takeRefunds returns the refunds of l and removes them.
func (l *lease) takeRefunds() []sluice.Request {
	reqs := l.refunds
	for i := range reqs {
		reqs[i].Key = l.key
	}
	l.refunds = nil
	return reqs
}

// question is a request to the store that decides a take of cost and may lease more:
// OpTakeUpTo, OpTake or OpReserve of units.
type question struct {
	op          sluice.Op
	cost, units int64
	sent        moment
	outcomes    sluice.Outcomes
}

// more reports whether q asks for more units than its take needs.
func (q *question) more() bool { return q.units > q.cost || q.op == sluice.OpReserve }

// ask returns the operation and the units of the next question.
func (l *lease) ask(cost int64) (op sluice.Op, units int64) {
	pi := l.info
	// The demand of a TTL, or half of it where a refund of unused units gives back
	// little: half of it is nearly always used.
	units = max(l.now, l.before)
	if !pi.unusedCounts {
		units = (units + 1) / 2
	}
	units = min(units, pi.units)
	if pi.nodes > 0 {
		room := pi.full
		if l.roomKnown {
			room = l.room
		}
		units = min(units, max(room/(2*pi.nodes), 1))
	}
	switch {
	case l.dry:
		// A take that finds nothing reserves. Otherwise all callers would ask again for
		// each unit that refills, and all but one in vain.
		return sluice.OpReserve, max(units, cost)
	case units <= cost:
		return sluice.OpTake, cost
	case cost == 1:
		return sluice.OpTakeUpTo, units
	case l.roomKnown && l.room < units:
		return sluice.OpTake, cost
	default:
		return sluice.OpTake, units
	}
}

// applyAnswer records the store's answer to q, which arrived at heard, and returns the
// decision of the take that asked. It reports false if q was denied because it asked for
// more units than the take needs; then q must be sent again for the take's alone.
func (l *lease) applyAnswer(q *question, heard moment, d sluice.Decision) (sluice.Decision, bool) {
	l.roomKnown, l.room = true, d.Remaining
	if !d.Allowed {
		known := q.units == q.cost || q.op == sluice.OpTakeUpTo
		l.dry = l.dry || known
		return d, known
	}
	l.dry = l.dry && d.Remaining < q.units
	p := grant{sent: q.sent, heard: heard, left: d.Spent, grant: d, outcomes: q.outcomes}
	if d.Delay > 0 {
		p.from = lengthened(int64(d.Delay))
		p.outcomes = slices.Clone(p.outcomes) // q's outcomes become the denial's
	} else {
		p.left -= q.cost
	}
	p.grant.Spent, p.grant.Due = 0, d.At
	if p.left > 0 {
		l.keepGrant(&p)
	}
	if d.Delay > 0 {
		return p.deny(heard, q.outcomes), true
	}
	d.Spent = q.cost
	d.Remaining += p.left
	return d, true
}

// keepGrant adds p to the grants, or retires it if it came too late.
func (l *lease) keepGrant(p *grant) {
	ttl, cut := l.info.usable(int64(p.grant.At), p.grant.Delay.Microseconds(), p.outcomes)
	p.usable = shortened(int64(p.grant.Delay) + ttl*1000)
	p.refundable = !cut
	if p.heard.since(p.sent) < p.usable-p.from && len(l.grants) < mostGrants {
		l.grants = append(l.grants, *p)
	} else {
		l.retire(p)
	}
}
