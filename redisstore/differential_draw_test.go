// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// family is the number of subjects in a row that may have the same limit.
const family = 5

// subjects makes the subjects of an epoch: half of them alone, the others in families, whose
// takes may share a call.
func (d *differential) subjects(epoch int) []*subject {
	list := make([]*subject, 100)
	for i := range list {
		name := fmt.Sprintf("%d.%d", epoch, i)
		switch {
		case i < len(list)/2:
			list[i] = d.subject(name)
		case i%family == 0:
			list[i] = d.over(name, d.shared(inTurn[(epoch+i/family)%len(inTurn)]))
		default:
			first := list[i-i%family]
			list[i] = d.over(name, first.charges[0].Plan.Term(0).Limit)
			list[i].like = first
		}
	}
	return list
}

// inTurn are the kinds whose takes may share a call.
var inTurn = [...]kind{kindBucket, kindFixed, kindCounter}

// shared returns a limit of that kind whose takes may share a call.
func (d *differential) shared(k kind) sluice.Limit {
	for {
		l := d.limit().WithName("l0")
		c := call{items: []item{{preparedLimit: &preparedLimit{term: d.plan("shared", []sluice.Limit{l}).Term(0)}}}}
		if kindOf(c.items[0].term) == k && c.plain() && d.store.mayShare(c.items[0].term) {
			return c.items[0].term.Limit
		}
	}
}

// over makes a subject with one key and one limit.
func (d *differential) over(name string, l sluice.Limit) *subject {
	s := &subject{scope: name, now: d.instant(), rules: make(map[uint64]*modelRule)}
	s.charges = []sluice.Charge{{Plan: d.plan(name, []sluice.Limit{l}), Key: name}}
	s.makeItems(new(Store))
	s.model = make([][]algo.State, 1)
	return s
}

// callLike makes a call of a subject like another subject's call at the same moment: if that
// is one take, so is this.
func (d *differential) callLike(s *subject, c *call) *call {
	s.now = c.now
	s.makeItems(d.store)
	req := &sluice.Request{Op: sluice.OpTake, Charge: s.charges[0]}
	req.Cost = c.jobs[0].req.Cost
	s.trail = append(s.trail, fmt.Sprintf("at %d: a take of %d, as others", s.now, req.Cost))
	return &call{items: s.items, charges: 1, now: s.now, jobs: []*job{{op: sluice.OpTake, req: req}}}
}

// subject makes a subject with up to three keys and up to three limits for each.
func (d *differential) subject(name string) *subject {
	s := &subject{scope: name, now: d.instant(), rules: make(map[uint64]*modelRule)}
	charges := 1
	if d.rand.IntN(6) == 0 {
		charges += 1 + d.rand.IntN(2)
	}
	for n := range charges {
		limits := 1
		if d.rand.IntN(3) == 0 {
			limits += d.rand.IntN(3)
		}
		list := make([]sluice.Limit, limits)
		for i := range list {
			list[i] = d.limit().WithName(fmt.Sprintf("l%d", i))
		}
		s.charges = append(s.charges, sluice.Charge{Plan: d.plan(s.scope, list), Key: fmt.Sprintf("%s.%d", name, n)})
	}
	s.makeItems(new(Store)) // the other store meets limits with the first call
	s.model = make([][]algo.State, len(s.items))
	return s
}

func (s *subject) makeItems(store *Store) {
	s.items, s.tags = nil, nil
	for n := range s.charges {
		store.prepared(s.charges[n].Plan)
	}
	for n := range s.charges {
		var tag string
		s.items, tag = store.appendItems(s.items, &s.charges[n], n)
		s.tags = append(s.tags, tag)
	}
}

func (d *differential) plan(scope string, limits []sluice.Limit) *sluice.Plan {
	for !slices.ContainsFunc(limits, func(l sluice.Limit) bool { return !testkit.Is[sluice.Block](l) }) {
		limits[0] = d.limit().WithName(limits[0].Name)
	}
	p, err := sluice.Compile(scope, limits...)
	if err != nil {
		panic(err)
	}
	return p
}

// limitsOf returns the limits of a charge.
func limitsOf(charge int, p *sluice.Plan) was {
	list := make([]sluice.Limit, p.Len())
	for i := range list {
		list[i] = p.Term(i).Limit
	}
	return was{charge, list}
}

// call makes the next call of a subject: at a later or earlier instant, with
// one operation or several, sometimes under a changed limit.
func (d *differential) call(s *subject) *call {
	s.now = min(max(s.now+d.step(s), 0), 1<<52)
	if n := len(s.before); n > 0 && d.rand.IntN(60) == 0 || d.rand.IntN(200) == 0 {
		c := &s.charges[d.rand.IntN(len(s.charges))]
		list := make([]sluice.Limit, c.Plan.Len())
		which := d.rand.IntN(len(list))
		for i := range list {
			list[i] = c.Plan.Term(i).Limit
			if i == which {
				list[i] = d.change(list[i])
			}
		}
		if n > 0 && d.rand.IntN(2) == 0 { // back to the limit before
			old := s.before[d.rand.IntN(n)]
			c, list = &s.charges[old.charge], old.limits
		}
		s.before = append(s.before, limitsOf(slices.IndexFunc(s.charges, func(o sluice.Charge) bool { return o.Key == c.Key }), c.Plan))
		c.Plan = d.plan(s.scope, list)
		s.trail = append(s.trail, fmt.Sprintf("changed to %v", list))
		d.changed++
	}
	s.makeItems(d.store) // as every request does
	c := &call{items: s.items, tags: s.tags, charges: len(s.charges), now: s.now}
	jobs := 1
	if d.rand.IntN(8) == 0 || d.extreme && d.rand.IntN(2) == 0 {
		jobs += d.rand.IntN(4)
	}
	for range jobs {
		j, times := d.job(s), 1
		if d.rand.IntN(64) == 0 {
			times += d.rand.IntN(maxBatch) // as if many asked at once
		}
		for range times {
			again := *j
			c.jobs = append(c.jobs, &again)
		}
		s.trail = append(s.trail, fmt.Sprintf("at %d: %d times %s", s.now, times, describeJob(j)))
	}
	if len(s.trail) > 64 {
		s.trail = slices.Clone(s.trail[32:])
	}
	return c
}

func (d *differential) job(s *subject) *job {
	ops := []sluice.Op{
		sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTake,
		sluice.OpPeek, sluice.OpRefund, sluice.OpRefund, sluice.OpCharge, sluice.OpTakeUpTo, sluice.OpReserve, sluice.OpReserve, opDeny,
	}
	op := ops[d.rand.IntN(len(ops))]
	switch d.rand.IntN(100) {
	case 0:
		op = sluice.OpReset
	case 1:
		op = sluice.OpConvert
	case 2, 3:
		op = sluice.OpAdd
	}
	req := &sluice.Request{Op: op, Charge: s.charges[0]}
	if len(s.charges) > 1 {
		req.More = slices.Clone(s.charges[1:])
	}
	req.Cost = d.cost(s.charges[0].Plan)
	for i := range req.More {
		req.More[i].Cost = d.cost(req.More[i].Plan)
	}
	j := &job{op: op, req: req}
	if op == opDeny {
		req.Op, j.denied = sluice.OpTake, true
	}
	switch op {
	case sluice.OpReserve:
		req.MaxWait = time.Duration(d.upTo(sluice.MaxWait.Microseconds())) * time.Microsecond
		if d.rand.IntN(8) == 0 {
			j.least = time.Duration(d.upTo(req.MaxWait.Microseconds())) * time.Microsecond
		}
	case sluice.OpCharge:
		if d.rand.IntN(8) == 0 {
			j.least = time.Duration(d.upTo(1e6)) * time.Microsecond
		}
	case sluice.OpTake, sluice.OpPeek:
		if d.rand.IntN(8) == 0 {
			req.MaxWait = time.Duration(d.upTo(sluice.MaxWait.Microseconds())) * time.Microsecond
		}
	case sluice.OpRefund:
		req.At = sluice.Instant(max(s.now-d.upTo(s.reach()), 1))
		if n := len(s.taken); n > 0 && d.rand.IntN(4) > 0 {
			taken := s.taken[d.rand.IntN(n)]
			req.At, req.Due = max(taken.At, 1), taken.Due
			if d.rand.IntN(2) == 0 && taken.Spent > 0 {
				req.Cost = taken.Spent
			}
			if d.rand.IntN(3) == 0 {
				req.Counted = req.Cost
				req.Cost = d.upTo(req.Cost)
			}
		}
	}
	return j
}

// reach returns a length of time that matters to the subject, in µs.
func (s *subject) reach() int64 {
	var longest int64
	for i := range s.items {
		longest = max(longest, s.items[i].term.Micros)
	}
	return longest
}

// step returns how far the clock moves: often not at all or by the time of a unit, now and
// then to an edge, over a window or back.
func (d *differential) step(s *subject) int64 {
	t := s.items[d.rand.IntN(len(s.items))].term
	if d.extreme && d.rand.IntN(6) == 0 {
		return -d.upTo([]int64{1, 1000, t.Sub, 2 * t.Micros}[d.rand.IntN(4)])
	}
	switch d.rand.IntN(24) {
	case 0, 1, 2, 3:
		return 0
	case 4, 5:
		return 1
	case 6, 7, 8:
		return d.upTo(t.Micros)
	case 9, 10, 11, 12:
		return d.upTo(t.Micros/min(t.Quota, t.Micros) + 1)
	case 13, 14:
		return t.Sub - s.now%t.Sub - 1 + d.rand.Int64N(3)
	case 15, 16:
		// to the moment at which a state is idle, or a µs beside it
		if m := s.model[d.rand.IntN(len(s.model))]; len(m) > 0 && m[0].Idle > s.now {
			return m[0].Idle - s.now - 1 + d.rand.Int64N(3)
		}
		return t.Micros
	case 17:
		return -d.upTo(2 * t.Micros)
	case 18:
		if d.rand.IntN(10) == 0 {
			return d.instant() - s.now
		}
		return -d.upTo(1000)
	default:
		return d.upTo(t.Micros/8 + 1)
	}
}

// instant returns a moment near today or far from it.
func (d *differential) instant() int64 {
	switch d.rand.IntN(8) {
	case 0:
		return d.rand.Int64N(1 << 20)
	case 1:
		return d.rand.Int64N(1 << 51)
	default:
		return 1_763_700_000_000_000 + d.rand.Int64N(400*24*3600*1e6)
	}
}

// upTo returns a number of 0 to most, small or large.
func (d *differential) upTo(most int64) int64 {
	switch d.rand.IntN(6) {
	case 0:
		return d.rand.Int64N(min(most, 3) + 1)
	case 1:
		return most - d.rand.Int64N(min(most, 3)+1)
	case 2:
		return d.rand.Int64N(d.rand.Int64N(most+1) + 1)
	default:
		return d.rand.Int64N(most + 1)
	}
}

// cost returns a cost that matters to a plan.
func (d *differential) cost(p *sluice.Plan) int64 {
	t := p.Term(d.rand.IntN(p.Len()))
	full := max(t.Quota, t.Burst)
	if t.Burst > 0 {
		full = t.Burst
	}
	if d.extreme && d.rand.IntN(2) == 0 {
		return min(full/[]int64{1, 1, 2, 3, 10}[d.rand.IntN(5)]+d.rand.Int64N(3), sluice.MaxQuota)
	}
	switch d.rand.IntN(40) {
	case 0:
		return 0
	case 1:
		return min(full+d.rand.Int64N(3), sluice.MaxQuota)
	case 2:
		return d.upTo(sluice.MaxQuota)
	case 3, 4, 5, 6:
		return d.upTo(full)
	case 7, 8, 9, 10, 11, 12, 13, 14:
		return 1 + d.rand.Int64N(full/4+1)
	case 15, 16, 17, 18, 19, 20, 21, 22, 23:
		return 1 + d.rand.Int64N(full/16+1)
	default:
		return 1
	}
}
