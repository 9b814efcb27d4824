// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"slices"

	"github.com/sluicegate/sluice"
)

// oneSlot reports whether all keys are in one slot.
func oneSlot(tags []string) bool {
	for _, tag := range tags[1:] {
		if slot(tag) != slot(tags[0]) {
			return false
		}
	}
	return true
}

// crosses reports whether the call's keys are in several slots of a Cluster.
func (s *Store) crosses(c *call) bool { return s.cluster && !oneSlot(c.tags) }

// slotGroup is the part of a request in one hash slot.
type slotGroup struct {
	slot    uint16
	charges []int // indexes of the request's charges
	limits  []int // indexes of the request's outcomes

	call *call // the last that was made
	job  *job
	// denied is the job, set by a look, that decides the part if the request is denied.
	denied *job
	known  bool // whether a look has found the hold of the request
}

// multiSlot is a request over several slots.
type multiSlot struct {
	store *Store
	req   *sluice.Request
	parts []*slotGroup
	at    int64 // the instant of the decision
}

func newMultiSlot(s *Store, req *sluice.Request, tags []string) *multiSlot {
	x := &multiSlot{store: s, req: req}
	first := make([]int, len(tags)) // of each charge's limits
	order := make([]int, len(tags))
	for n := range tags {
		order[n] = n
		if n > 0 {
			first[n] = first[n-1] + x.req.Nth(n-1).Plan.Len()
		}
	}
	if req.Op == sluice.OpTakeUpTo {
		// A call returns the units that its first charge got, which must not cost 0.
		slices.SortStableFunc(order, func(a, b int) int {
			return int(bit(x.req.Nth(a).Cost == 0) - bit(x.req.Nth(b).Cost == 0))
		})
	}
	for _, n := range order {
		sl := slot(tags[n])
		i := slices.IndexFunc(x.parts, func(p *slotGroup) bool { return p.slot == sl })
		if i < 0 {
			i = len(x.parts)
			x.parts = append(x.parts, &slotGroup{slot: sl})
		}
		p := x.parts[i]
		p.charges = append(p.charges, n)
		for k := range x.req.Nth(n).Plan.Len() {
			p.limits = append(p.limits, first[n]+k)
		}
	}
	slices.SortFunc(x.parts, func(p, q *slotGroup) int { return int(p.slot) - int(q.slot) })
	return x
}

// groupRequest returns the part p of the request. If cost is not nil it replaces each cost.
func (x *multiSlot) groupRequest(p *slotGroup, cost func(int64) int64) *sluice.Request {
	req := *x.req
	req.More = nil
	for i, n := range p.charges {
		c := *x.req.Nth(n)
		if cost != nil {
			c.Cost = cost(c.Cost)
		}
		if i == 0 {
			req.Charge = c
		} else {
			req.More = append(req.More, c)
		}
	}
	req.Outcomes = new(make(sluice.Outcomes, len(p.limits)))
	return &req
}

// queues returns the number of limits that may delay the request.
func (x *multiSlot) queues() (n int) {
	for i := range x.req.Charges() {
		plan := x.req.Nth(i).Plan
		for k := range plan.Len() {
			if plan.Term(k).Queues {
				n++
			}
		}
	}
	return n
}
