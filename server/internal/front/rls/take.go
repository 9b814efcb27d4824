// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rls

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice"
)

// ask prepares the requests to the store: one for each descriptor, but one for all whose hits are
// taken together.
func (d *decision) ask() error {
	for i := range d.descriptors {
		switch k := &d.descriptors[i]; {
		case k.limit == nil:
		case d.together(k):
			if err := d.join(k); err != nil {
				return fmt.Errorf("descriptor %d: %w", i+1, err)
			}
		case k.limit.Slots.Cap == 0:
			k.request = len(d.requests)
			d.requests, d.results = append(d.requests, k.ask()), append(d.results, sluice.Result{})
		}
	}
	if d.joint < 0 {
		return nil
	}
	q := &d.requests[d.joint]
	outcomes := make(sluice.Outcomes, q.Limits())
	if q.Outcomes = &outcomes; d.slot != nil {
		q.Op, q.Slot = sluice.OpTake, &sluice.Slot{SlotRequest: d.slot.askSlot(sluice.SlotAcquire)}
	}
	return nil
}

// ask returns the request to the store about one descriptor.
func (k *descriptor) ask() sluice.Request {
	q := sluice.Request{Op: sluice.OpTake, Charge: k.costs()}
	if k.limit.plan == nil {
		q.Op, q.Plan = sluice.OpCharge, k.limit.counter
	}
	switch {
	case k.hits == 0:
		q.Op = sluice.OpPeek
	case k.negative:
		q.Op, q.Cost = sluice.OpAdd, k.hits
	}
	return q
}

// costs returns the charge of the hits. Those of a limit of 0, which no plan can have, do not fit
// its quota of 1.
func (k *descriptor) costs() sluice.Charge {
	c := sluice.Charge{Plan: k.limit.plan, Key: k.key, Cost: k.hits}
	if k.limit.none && k.hits > 0 {
		c.Cost++
	}
	return c
}

// together reports whether a descriptor's hits are taken with those of others. A limit that may
// deny though the request passes is decided by itself, and so are hits that come back.
func (d *decision) together(k *descriptor) bool {
	return d.limits.Together && !k.negative && !k.limit.Shadow && !k.limit.Quota && (k.limit.Slots.Cap == 0 || k.hits > 0)
}

// join adds a descriptor to those whose hits are taken together. Two of one key are one charge.
func (d *decision) join(k *descriptor) error {
	if k.limit.Slots.Cap > 0 {
		if d.slot != nil {
			return errors.New("a request acquires one slot at most, as all or none is acquired and charged; send one owner")
		}
		d.slot = k
		return nil
	}
	if d.joint < 0 {
		d.joint = len(d.requests)
		d.requests, d.results = append(d.requests, sluice.Request{Op: sluice.OpPeek}), append(d.results, sluice.Result{})
	}
	q, c := &d.requests[d.joint], k.costs()
	if k.request = d.joint; k.hits > 0 {
		q.Op = sluice.OpTake
	}
	if q.Plan == nil {
		q.Charge = c
		return nil
	}
	for n := range q.Charges() {
		if same := q.Nth(n); same.Key == c.Key {
			if same.Plan.ID != c.Plan.ID {
				return errors.New("an earlier one with the same entries brings another limit, and all or none is charged; send one limit")
			}
			same.Cost += c.Cost
			k.charge = n
			return nil
		}
	}
	if k.charge = q.Charges(); k.charge == sluice.MaxCharges {
		return fmt.Errorf("all descriptors are charged or none, and at most %d can be; send fewer", sluice.MaxCharges)
	}
	q.More = append(q.More, c)
	return nil
}

// shareJoint looks at the limits of the joint request if its slot was denied, as they have not
// been decided then.
func (d *decision) shareJoint(ctx context.Context) (err error) {
	if d.joint < 0 || d.slot == nil {
		return nil
	}
	q := &d.requests[d.joint]
	if s := &q.Slot.Decision; s.Allowed || s.RetryAfter > 0 { // else the limits denied
		d.slot.held(s)
	}
	if d.slot.standing.taken != nil && !d.slot.standing.taken.Allowed {
		peek := *q
		peek.Op, peek.Slot = sluice.OpPeek, nil
		d.results[d.joint].Decision, err = d.Store.Take(ctx, peek)
	}
	return err
}

// taken sets the standing of a descriptor whose hits were taken, by the limit that binds: the one
// that denies for longest, else the one with the least left.
func (d *decision) taken(k *descriptor) {
	r := &d.results[k.request].Decision
	o := sluice.Outcome{Allowed: r.Allowed, TooLarge: r.TooLarge, Remaining: r.Remaining, RetryAfter: r.RetryAfter, ResetAfter: r.ResetAfter, Spent: r.Spent}
	s := standing{at: r.At, binding: r.Binding}
	if k.request == d.joint {
		q := &d.requests[d.joint]
		all := q.Outcomes.All()
		for n := range k.charge {
			all = all[q.Nth(n).Plan.Len():]
		}
		s.binding = 0
		for i := range all[:k.limit.plan.Len()] {
			if a, b := &all[i], &all[s.binding]; a.RetryAfter > b.RetryAfter || a.Allowed && b.Allowed && a.Remaining < b.Remaining {
				s.binding = i
			}
		}
		o = all[s.binding]
	}
	if k.limit.none {
		o.Remaining = 0
	}
	s.taken = &o
	k.standing = s
}
