// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// A request over keys in several slots of a Cluster makes one call for each slot.
// First it peeks at all slots; if one denies, nothing is written. Then it charges
// the slots one by one, in their order. If one denies after all, because of another
// request in between, it undoes the earlier charges. Meanwhile other requests may be
// denied for units that are given back later, but nothing is admitted twice. If the
// process dies between two calls, units stay charged and refill in time.
//
// All calls name one instant of decision, the earliest of the servers' clocks. A server
// decides at that instant unless it is more than a second ago, even if a state is of a later
// instant. So the decision equals that of a single server. If clocks differ by
// more, each server decides at its own instant, and the receipt names the earliest.

// tries is the number of times that a request is tried if other requests come between its look
// and its charge.
const tries = 3

// across decides a request over keys with these tags.
func (s *Store) across(ctx context.Context, req *sluice.Request, tags []string) (sluice.Decision, error) {
	x := newMultiSlot(s, req, tags)
	switch req.Op {
	case sluice.OpPeek:
		if _, err := x.look(ctx); err != nil {
			return sluice.Decision{}, err
		}
		return x.decision(), nil
	case sluice.OpReset, sluice.OpRefund, sluice.OpAdd, sluice.OpConvert, sluice.OpSettle, sluice.OpExtend:
		err := x.all(ctx, func(p *slotGroup) []*job {
			r := x.groupRequest(p, nil)
			if r.Op == sluice.OpRefund && x.queues() > 1 {
				r.Due = 0 // it may belong to a queue in another slot
			}
			return []*job{{op: r.Op, req: r}}
		})
		if err != nil {
			return sluice.Decision{}, err
		}
		return x.decision(), nil
	case sluice.OpCharge:
		return x.charge(ctx)
	default:
		return x.spend(ctx)
	}
}

// ask makes a call with jobs on one part.
func (x *multiSlot) ask(ctx context.Context, p *slotGroup, jobs []*job) error {
	c := x.store.newCall(jobs[0].req)
	c.jobs, c.at, c.part = jobs, x.at, true
	if err := x.store.run(ctx, c); err != nil {
		return err
	}
	p.call, p.job = c, jobs[0]
	return nil
}

// all makes a call on every part, all at once. Before the first calls it asks the
// servers for their time.
func (x *multiSlot) all(ctx context.Context, jobs func(*slotGroup) []*job) error {
	if x.at == 0 {
		err := each(x.parts, func(p *slotGroup) error {
			req := x.groupRequest(p, func(int64) int64 { return 0 })
			req.Op = sluice.OpPeek
			return x.ask(ctx, p, []*job{{op: sluice.OpPeek, req: req}})
		})
		if err != nil {
			return err
		}
		for _, p := range x.parts {
			if x.at == 0 || p.call.now < x.at {
				x.at = p.call.now
			}
		}
	}
	return each(x.parts, func(p *slotGroup) error { return x.ask(ctx, p, jobs(p)) })
}

// each calls do for all parts at once.
func each(parts []*slotGroup, do func(*slotGroup) error) error {
	errs := make([]error, len(parts))
	var wg sync.WaitGroup
	for i, p := range parts {
		wg.Go(func() { errs[i] = do(p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// charge decides an OpCharge.
func (x *multiSlot) charge(ctx context.Context) (sluice.Decision, error) {
	if _, err := x.look(ctx); err != nil {
		return sluice.Decision{}, err
	}
	var wait time.Duration // until all reservations are due
	for _, p := range x.parts {
		wait = max(wait, p.job.turn)
	}
	err := x.all(ctx, func(p *slotGroup) []*job {
		return []*job{{op: sluice.OpCharge, req: x.groupRequest(p, nil), least: wait}}
	})
	if err != nil {
		return sluice.Decision{}, err
	}
	return x.decision(), nil
}

// spend decides an operation that spends from all parts or from none.
func (x *multiSlot) spend(ctx context.Context) (sluice.Decision, error) {
	for range tries {
		x.at = 0
		wait, err := x.look(ctx)
		if err != nil {
			return sluice.Decision{}, err
		}
		var cost func(int64) int64
		allowed := wait <= x.req.MaxWait
		if x.req.Op == sluice.OpTakeUpTo {
			n := x.upTo()
			allowed, cost = n > 0, func(c int64) int64 { return min(c, n) }
		} else {
			for _, p := range x.parts {
				allowed = allowed && p.job.decision.Allowed
			}
		}
		if !allowed && x.req.Hold != nil {
			return x.denyHold(ctx)
		}
		if !allowed {
			return x.deny(ctx)
		}
		if done, err := x.commit(ctx, cost, wait); err != nil {
			return sluice.Decision{}, err
		} else if done {
			return x.decision(), nil
		}
	}
	x.at = 0
	if _, err := x.look(ctx); err != nil {
		return sluice.Decision{}, err
	}
	if x.req.Hold != nil {
		return x.denyHold(ctx)
	}
	return x.deny(ctx)
}

// denyHold denies a hold after a look. If some parts know the hold, because the request is a
// repetition, it removes the hold there. If there are too many holds, the parts do not deny.
func (x *multiSlot) denyHold(ctx context.Context) (sluice.Decision, error) {
	d := x.decision()
	switch {
	case d.Hold >= sluice.HoldsFull:
		return d, nil
	case slices.ContainsFunc(x.parts, func(p *slotGroup) bool { return p.known }):
		if err := x.remove(ctx); err != nil {
			return sluice.Decision{}, err
		}
	}
	return x.deny(ctx)
}

// remove removes the hold of the request in all parts, with its units.
func (x *multiSlot) remove(ctx context.Context) error {
	undo, _ := x.req.Undo(sluice.Decision{Allowed: true, Spent: 1})
	y := multiSlot{store: x.store, req: &undo, parts: x.parts, at: x.at}
	return y.all(ctx, func(p *slotGroup) []*job {
		req := y.groupRequest(p, nil)
		return []*job{{op: req.Op, req: req}}
	})
}

// look asks every part for the outcome of the request. For a reservation it returns
// the time until all parts have the units.
func (x *multiSlot) look(ctx context.Context) (wait time.Duration, err error) {
	err = x.all(ctx, func(p *slotGroup) []*job {
		req, cost := x.groupRequest(p, nil), func(c int64) int64 { return c }
		switch req.Op { //nolint:exhaustive // the others are not looked at, or unchanged
		case sluice.OpTakeUpTo:
			// The remaining units do not depend on the cost. A cost of 0 fits unless
			// there is a queue.
			req = x.groupRequest(p, func(int64) int64 { return 0 })
			req.Op = sluice.OpPeek
			cost = func(c int64) int64 { return min(c, 1) }
		case sluice.OpTake, sluice.OpCharge:
			req.Op = sluice.OpPeek
		}
		p.denied = &job{op: sluice.OpPeek, req: x.groupRequest(p, cost), denied: true}
		p.denied.req.Hold = nil
		return []*job{{op: sluice.OpPeek, req: req}, p.denied}
	})
	if err == nil && x.req.Hold != nil {
		err = x.lookAgain(ctx)
	}
	if err != nil || x.req.Op != sluice.OpReserve {
		return 0, err
	}
	for _, p := range x.parts {
		if d := &p.job.decision; d.Allowed {
			wait = max(wait, waited(d))
		}
	}
	return wait, nil
}

// lookAgain asks the parts that know the hold of the request, if others do not, for a cost of 0:
// they allow it unless they are in debt.
func (x *multiSlot) lookAgain(ctx context.Context) error {
	var known []*slotGroup
	for _, p := range x.parts {
		if p.known = p.job.decision.Hold != 0 && p.job.decision.Hold < sluice.HoldsFull; p.known {
			known = append(known, p)
		}
	}
	if len(known) == len(x.parts) {
		return nil
	}
	return each(known, func(p *slotGroup) error {
		hold, free := p.job.decision.Hold, func(int64) int64 { return 0 }
		req := x.groupRequest(p, free)
		req.Op, req.Hold = sluice.OpPeek, nil
		p.denied = &job{op: sluice.OpPeek, req: x.groupRequest(p, free), denied: true}
		p.denied.req.Hold = nil
		err := x.ask(ctx, p, []*job{{op: sluice.OpPeek, req: req}, p.denied})
		p.job.decision.Hold = hold
		return err
	})
}

// decidedAt returns the instant at which d was decided.
func decidedAt(d *sluice.Decision) int64 { return int64(d.Due) - d.Delay.Microseconds() }

// waited returns the time from the decision d until its units count. A log ahead of the
// clock counts them at its own instant, without a delay.
func waited(d *sluice.Decision) time.Duration {
	return min(time.Duration(int64(d.At)-decidedAt(d))*time.Microsecond, d.Delay)
}

// upTo returns the number of units that every charge of the request has.
func (x *multiSlot) upTo() int64 {
	n := int64(math.MaxInt64)
	for _, p := range x.parts {
		k := 0
		for _, i := range p.charges {
			c := x.req.Nth(i)
			for range c.Plan.Len() {
				switch o := &(*p.job.req.Outcomes)[k]; {
				case c.Cost > 0:
					n = min(n, c.Cost, o.Remaining)
				case !o.Allowed:
					n = 0
				}
				k++
			}
		}
	}
	return n
}

// deny denies a request after a look. If the denial changes a state, as it does where
// denials count, it is sent to the parts.
func (x *multiSlot) deny(ctx context.Context) (sluice.Decision, error) {
	op := opDeny
	if x.req.Op == sluice.OpReserve {
		op = opRefuse
	}
	changes := false
	for _, p := range x.parts {
		changes = changes || p.denied.written
		p.job = p.denied
	}
	if changes {
		err := x.all(ctx, func(p *slotGroup) []*job {
			return []*job{{op: op, req: p.denied.req, denied: true}}
		})
		if err != nil {
			return sluice.Decision{}, err
		}
	}
	return x.decision(), nil
}

// commit charges the parts in their order. It reports whether all have charged the units
// that the look found; if not, it undoes the charges.
func (x *multiSlot) commit(ctx context.Context, cost func(int64) int64, wait time.Duration) (bool, error) {
	for i, p := range x.parts {
		req := x.groupRequest(p, cost)
		err := x.ask(ctx, p, []*job{{op: req.Op, req: req, least: wait}})
		if err != nil {
			return false, errors.Join(err, x.undo(ctx, x.parts[:i]))
		}
		d := &p.job.decision
		if !d.Allowed {
			return false, x.undo(ctx, x.parts[:i])
		}
		if d.Spent != req.Cost || req.Op == sluice.OpReserve && waited(d) != wait {
			return false, x.undo(ctx, x.parts[:i+1])
		}
	}
	return true, nil
}

// undo gives back the units that parts have charged. It restores states that have not
// changed since, and refunds the units of others. It runs even if ctx has ended.
func (x *multiSlot) undo(ctx context.Context, parts []*slotGroup) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer cancel()
	if x.req.Hold != nil {
		return x.remove(ctx)
	}
	err := each(parts, func(p *slotGroup) error {
		req := *p.job.req
		req.Op, req.At, req.Due, req.MaxWait = sluice.OpRefund, p.job.decision.At, p.job.decision.Due, 0
		c := x.store.newCall(&req)
		c.jobs, c.undo, c.part = []*job{{op: sluice.OpRefund, req: &req}}, true, true
		c.from, c.to = p.call.after, p.call.before
		return x.store.run(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("undo: %w", err)
	}
	return nil
}

// decision combines the results of the parts' last jobs.
func (x *multiSlot) decision() sluice.Decision {
	limits := x.req.Limits()
	outcomes, costs := make([]sluice.Outcome, limits), make([]int64, limits)
	d := sluice.Decision{Allowed: true}
	now, retry := int64(math.MaxInt64), time.Duration(0)
	for i, p := range x.parts {
		of := &p.job.decision
		k := 0
		for n, charge := range p.charges {
			for range x.req.Nth(charge).Plan.Len() {
				at := p.limits[k]
				outcomes[at], costs[at] = (*p.job.req.Outcomes)[k], p.job.req.Nth(n).Cost
				if p.known || x.req.Op == sluice.OpSettle || x.req.Op == sluice.OpExtend {
					costs[at] = 0
				}
				k++
			}
			if charge == 0 {
				d.Spent = of.Spent
				if of.Spent > 0 && x.req.Op != sluice.OpConvert && x.req.Hold == nil {
					d.Spent = min(of.Spent, p.job.req.Nth(n).Cost)
				}
			}
		}
		d.Allowed = d.Allowed && of.Allowed
		d.Delay, d.Hold = max(d.Delay, of.Delay), max(d.Hold, of.Hold)
		if of.Hold >= sluice.HoldsFull {
			retry = max(retry, of.RetryAfter)
		}
		now = min(now, decidedAt(of))
		if i == 0 || of.At < d.At {
			d.At = of.At
		}
	}
	if !d.Allowed {
		d.Spent, d.Delay, d.At = 0, 0, sluice.Instant(now)
	}
	for i := range outcomes {
		if i == 0 || algo.Binds(&outcomes[i], costs[i], &outcomes[d.Binding], costs[d.Binding]) {
			d.Binding = i
		}
	}
	o := &outcomes[d.Binding]
	d.TooLarge = o.TooLarge
	d.Remaining, d.RetryAfter, d.ResetAfter = o.Remaining, max(o.RetryAfter, retry), o.ResetAfter
	if x.req.Hold != nil {
		d.At = 0
	}
	d.Due = sluice.Instant(now) + sluice.Instant(d.Delay.Microseconds())
	copy(x.req.Outcomes.All(), outcomes)
	if d.Hold == sluice.HoldDiffers {
		clear(x.req.Outcomes.All())
		return sluice.Decision{Hold: d.Hold, RetryAfter: sluice.MaxRetryAfter, Due: sluice.Instant(now)}
	}
	return d
}
