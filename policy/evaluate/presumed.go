// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/sluicegate/sluice"
)

// budget is a key under the limits of a plan.
type budget struct {
	spot
	plan uint64
}

// presumption counts the units charged under a budget for requests whose responses are not yet
// known.
type presumption struct {
	units int64
	// owed are units of other requests that did not fit beside these.
	owed int64
}

// presumptions keep presumed units from displacing units that count. A unit that counts,
// but does not fit beside presumed ones, is owed: it replaces a presumed unit that turns
// out not to count. The zero presumptions are empty.
type presumptions struct {
	mu sync.Mutex
	of map[budget]presumption
}

func (p *presumptions) has(b budget) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[b].units > 0
}

func (p *presumptions) begin(b budget, units int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		p.of = make(map[budget]presumption)
	}
	of := p.of[b]
	of.units += units
	p.of[b] = of
}

// keep returns how many of the units are kept for owed units instead of being given back.
func (p *presumptions) keep(b budget, units int64) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[b]
	units = min(units, of.owed)
	if of.owed -= units; units > 0 {
		p.of[b] = of
	}
	return units
}

// owe records units that did not fit. It returns them if they are to be charged now, as
// presumed units have been given back since.
func (p *presumptions) owe(b budget, units int64) (now int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[b]
	if of.units == 0 {
		return units
	}
	of.owed = min(of.owed+units, of.units)
	p.of[b] = of
	return 0
}

// end removes presumed units that have been settled. It returns units that must be charged
// because they were owed too late for keep.
func (p *presumptions) end(b budget, units int64) (late int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	of := p.of[b]
	of.units -= units
	late = max(of.owed-of.units, 0)
	of.owed -= late
	if p.of[b] = of; of.units == 0 {
		delete(p.of, b)
	}
	return late
}

// presumptions are shared by the evaluators of a Queue; nil without a Queue.
func (v *Verdict) presumptions() *presumptions {
	if v.evaluator.opts.Queue == nil {
		return nil
	}
	return &v.evaluator.opts.Queue.presumed
}

func (v *Verdict) budget(c *sluice.Charge) budget {
	return budget{v.spot(c), c.Plan.ID}
}

// spent returns how many units of a charge fit under each of its limits, and the remaining
// outcomes.
func spent(c *sluice.Charge, terms sluice.Outcomes) (units int64, rest sluice.Outcomes) {
	units = c.Cost
	for t := range c.Plan.Len() {
		units = min(units, terms[t].Spent)
	}
	return units, terms[c.Plan.Len():]
}

// presumes reports whether units of the request are presumed.
func (v *Verdict) presumes() bool {
	return slices.ContainsFunc(v.asks, func(k ask) bool { return k.presumed })
}

// keepOwed adds units that others owe to the request's cost, so that they are not given back.
func (v *Verdict) keepOwed(k *ask) {
	p := v.presumptions()
	if p == nil || !k.presumed {
		return
	}
	for j := k.first; j < k.first+k.n; j++ {
		if of := v.extra(j); of.actual < of.presumed {
			of.actual += p.keep(v.budget(&v.charges[j].Charge), of.presumed-of.actual)
		}
	}
}

// besidePresumed has the store report how many units fit, if presumed units may leave no
// room for all.
func (v *Verdict) besidePresumed(req *sluice.Request) {
	p := v.presumptions()
	if p == nil {
		return
	}
	for i := range req.Charges() {
		if p.has(v.budget(req.Nth(i))) {
			room := make(sluice.Outcomes, req.Limits())
			req.Outcomes = &room
			return
		}
	}
}

// owe records the units of a charged request that did not fit.
func (v *Verdict) owe(ctx context.Context, req *sluice.Request) error {
	if req.Outcomes == nil {
		return nil
	}
	var errs []error
	var units int64
	terms := *req.Outcomes
	for i := range req.Charges() {
		c := *req.Nth(i)
		units, terms = spent(&c, terms)
		if c.Cost -= units; c.Cost > 0 {
			c.Cost = v.presumptions().owe(v.budget(&c), c.Cost)
			errs = append(errs, v.chargeLate(ctx, c))
		}
	}
	return errors.Join(errs...)
}

// endPresumed ends the presumptions of a request that has been settled.
func (v *Verdict) endPresumed(ctx context.Context) error {
	p := v.presumptions()
	if p == nil {
		return nil
	}
	var errs []error
	for i := range v.charges {
		if presumed := v.extra(i).presumed; presumed > 0 {
			late := v.charges[i].Charge
			late.Cost = p.end(v.budget(&late), presumed)
			errs = append(errs, v.chargeLate(ctx, late))
		}
	}
	return errors.Join(errs...)
}

// chargeLate charges units that did not fit before.
func (v *Verdict) chargeLate(ctx context.Context, c sluice.Charge) error {
	if c.Cost == 0 {
		return nil
	}
	_, err := v.charge(ctx, sluice.Request{Op: sluice.OpCharge, Charge: c})
	return err
}
