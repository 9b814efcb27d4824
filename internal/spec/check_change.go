// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"math"

	"github.com/sluicegate/sluice"
)

// parts returns the charges of a request as a receipt names them.
func (j *checker) parts(req *sluice.Request) []Part {
	return j.current[:1+len(req.More)]
}

// spend records that an allowed request has spent n units under every limit.
func (j *checker) spend(req *sluice.Request, id int, d *sluice.Decision, n between) {
	at := int64(d.At)
	for i := range j.items {
		it := &j.items[i]
		if at > j.now && n.hi > 0 && it.v.kind != blockKind {
			it.l.wait(at, it.fits.lo == at && it.fits.hi == at, j.now)
		}
		it.l.spend(it.v, id, j.now, at, n)
	}
	j.keep(req, id, d)
}

// keep records the receipt.
func (j *checker) keep(req *sluice.Request, id int, d *sluice.Decision) {
	j.keepParts(j.parts(req), id, d)
}

func (j *checker) keepParts(parts []Part, id int, d *sluice.Decision) {
	if d.Spent <= 0 {
		return
	}
	if len(j.receipts) >= 64 {
		j.receipts = append(j.receipts[:0], j.receipts[32:]...)
	}
	j.receipts = append(j.receipts, receipt{id, append([]Part(nil), parts...), d.At, d.Due, d.Spent, false})
}

// deny records a denial under the limits that count denials. RetryAfter includes its effect.
func (j *checker) deny(req *sluice.Request, id int) {
	j.countDenial(req)
	for i := range j.items {
		if it := &j.items[i]; it.v.countDenied && it.cost > 0 {
			it.l.deny(it.v, id, j.now, it.cost)
		}
	}
	for i := range j.items {
		j.items[i].fits = j.fits(&j.items[i], req)
	}
}

// checkCharge checks that the cost is recorded whether it fits or not, up to full plus Debt,
// and no earlier than reserved units.
func (j *checker) checkCharge(req *sluice.Request, id int, d *sluice.Decision) error {
	if !d.Allowed {
		return fmt.Errorf("charge: denied for %v; a charge never is", d.RetryAfter)
	}
	first := req.Plan.Len()
	spent, at := exactly(req.Cost), exactly(j.now)
	rooms := make([]between, len(j.items))
	for i := range j.items {
		it := &j.items[i]
		if front := max(it.l.front.hi, it.l.bal.last, it.l.warm.last); front > j.now {
			at.hi = max(at.hi, front)
		}
		if rooms[i] = it.room(j.now); d.At > sluice.Instant(j.now) {
			rooms[i].lo, rooms[i].hi = 0, it.v.units()+it.v.debt+it.v.credit // room now, or at the instant at which it counts
		}
		if i < first {
			spent = spent.atMost(rooms[i])
		}
	}
	if err := j.checkReceipt(d, at, between{d.Delay.Microseconds(), d.Delay.Microseconds()}, spent); err != nil {
		return err
	}
	even := true
	for i := range j.items {
		it := &j.items[i]
		n := rooms[i].atMost(exactly(req.Cost))
		even = even && (i < first || n.lo >= d.Spent)
		if i < first {
			if n.lo = max(n.lo, d.Spent); first == 1 {
				n.hi = d.Spent
			}
		}
		if int64(d.At) > j.now && n.hi > 0 && it.v.kind != blockKind {
			it.l.wait(int64(d.At), false, j.now)
			// It is not reported whether nothing was recorded, or units at a later instant.
			it.l.loose = it.l.loose || n.lo == 0
		}
		it.l.spend(it.v, id, j.now, int64(d.At), n)
	}
	parts, reported := j.charged(req, d)
	if even || reported {
		j.keepParts(parts, id, d)
	}
	return nil
}

// charged returns the parts of a charge that have recorded units, and whether each has
// recorded as many as the first or none.
func (j *checker) charged(req *sluice.Request, d *sluice.Decision) (parts []Part, even bool) {
	all := j.parts(req)
	if req.Outcomes == nil {
		return all, false
	}
	even, k := true, 0
	for i, p := range all {
		n := int64(math.MaxInt64)
		for range j.world.plans[p.Plan].Len() {
			n = min(n, (*req.Outcomes)[k].Spent)
			k++
		}
		if even = even && (n == 0 || n == d.Spent); n > 0 || i == 0 {
			parts = append(parts, p)
		}
	}
	return parts, even
}

// room returns how many units a charge can record: up to full plus Debt.
func (it *item) room(now int64) between {
	top := it.v.units() + it.v.debt
	if it.v.kind == blockKind {
		return exactly(top)
	}
	if it.l.bounded(it.v) || it.l.manyForms(it.v) {
		return between{0, top + it.v.credit}
	}
	h := it.l.held(it.v, now)
	r := between{max(top-h.hi, 0), max(top-h.lo, 0)}
	if it.l.front.hi > now {
		r.lo = 0
	}
	if it.v.kind == counterKind && it.v.rule == interpolated {
		// It is not stated whether a part of a unit leaves room for a whole one.
		r.lo = max(r.lo-1, 0)
	}
	return r
}

// checkRefund checks that a refund gives back no more than still counts, and exactly that
// where it is stated.
func (j *checker) checkRefund(req *sluice.Request, r *receipt, d *sluice.Decision) error {
	first := req.Plan.Len()
	var spent between
	backs := make([]between, len(j.items))
	for i := range j.items {
		it := &j.items[i]
		if r.step > it.l.voided {
			backs[i] = it.l.giveBack(it.v, r.step, j.now, int64(r.at), r.held, req.Cost)
		}
		if int64(r.at) <= it.l.void {
			backs[i].lo, it.l.back.lo = 0, 0
		}
		if i < first {
			spent = spent.and(backs[i])
		}
	}
	if back := -d.Spent; !spent.has(back) {
		return fmt.Errorf("refund: gives back %d of %d (the receipt holds %d), want %d to %d", back, req.Cost, r.held, spent.lo, spent.hi)
	}
	for i := range j.items {
		it := &j.items[i]
		if i < first {
			if backs[i].hi = min(backs[i].hi, -d.Spent); first == 1 {
				backs[i].lo = -d.Spent
			}
		}
		it.l.refund(it.v, r.step, j.now, backs[i], req.Cost)
	}
	r.held -= req.Cost
	r.parted = true
	return nil
}

// reset forgets the keys of a request, and makes their receipts void, as they would give back
// units of others.
func (j *checker) reset(id int) {
	j.void(id, func(int) bool { return true })
	for i := range j.items {
		it := &j.items[i]
		*it.l = account{series: it.v.series, start: it.l.start, voided: it.l.voided, void: it.l.void}
	}
}

// void makes earlier receipts of a request's keys give nothing back. Other receipts of the
// same scope and key may give nothing back either if they name its instant, or an instant up
// to which units were reserved.
func (j *checker) void(id int, changed func(key int) bool) {
	for i := range j.items {
		it := &j.items[i]
		if !changed(it.key) {
			continue
		}
		until := max(j.now, it.l.front.hi, it.l.bal.last)
		switch it.v.kind {
		case refillKind, fixedKind:
			until += it.v.window
		case counterKind:
			until += it.v.sub
		default:
		}
		it.l.voided = id
		for at, l := range j.accounts {
			if at.key == it.key && at.series.scope == it.v.series.scope {
				l.void = max(l.void, until)
			}
		}
	}
}
