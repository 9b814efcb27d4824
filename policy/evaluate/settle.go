// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// settleBy corrects the charges of an allowed request, once its response is known: the
// difference to an estimated cost is charged or given back, and rules that count responses
// charge for responses that count and for unseen ones. Units above a limit's quota become
// debt, up to the limit's Debt. Slots of requests in flight are released, unless the request
// may still be running: then they expire.
//
// It calls the store once or, if there is nothing to correct, not at all. It
// continues for a second at most when ctx ends: a client that hangs up has still spent
// its units. A second call does nothing, as does one for a request that was not allowed.
func (v *Verdict) settleBy(ctx context.Context, r policy.Response) error {
	if r.Running {
		v.keepSlots()
	}
	if v.needs&needsResponse != 0 && v.Allowed && !v.settled {
		v.noteStated(&r)
	}
	return v.settle(ctx, func(c *charge) int64 {
		units := actual(&c.level.rule.Cost, c.Cost, v.attributes, &r)
		if w := c.level.rule.When; w != nil && !r.Unseen && !counts(w, r.Status) {
			return 0
		}
		return units
	})
}

// noteStated records the rules whose cost the response has stated, and those whose cost it has
// not.
func (v *Verdict) noteStated(r *policy.Response) {
	var last *rule
	for i := range v.charges {
		c := &v.charges[i]
		if c.level.rule == last || c.set == nil || c.level.rule.Cost.Of != policy.ResponseHeader || r.Unseen {
			continue
		}
		if last = c.level.rule; last.When == nil || counts(last.When, r.Status) {
			list := &v.Unstated
			if _, ok := statedCost(&last.Cost, r); ok {
				list = &v.Stated
			}
			*list = append(*list, last.Rule)
		}
	}
}

// settles reports whether settleBy may have units to correct or slots to release. If not, the
// response need not be watched.
func (v *Verdict) settles() bool {
	if v.needs&needsResponse != 0 {
		for i := range v.charges {
			if awaits(v.charges[i].level.rule.Rule) {
				return true
			}
		}
	}
	return len(v.holds) > 0
}

// presume implements [Call.Presume].
func (v *Verdict) presume(ctx context.Context) error {
	if !v.Allowed || v.peek || v.settled {
		return nil
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	var errs []error
	for i := range v.asks {
		k := &v.asks[i]
		if !k.peek || k.presumed || k.result.Err != nil || !k.result.Decision.Allowed {
			continue
		}
		req, room := sluice.Request{}, make(sluice.Outcomes, k.terms)
		v.request(&req, k, sluice.OpCharge)
		req.Outcomes = &room
		d, err := v.charge(ctx, req)
		if err != nil {
			if late, ok := errors.AsType[*sluice.MaybeSentError](err); ok {
				late.Undo(nil) // settleBy charges it
			}
			errs = append(errs, err)
			continue
		}
		d.Allowed = true // the request has passed
		k.presumed, k.result.Decision = true, d
		v.recorded(k, room)
	}
	return errors.Join(errs...)
}

// recorded records the units that each charge of an ask has spent: if not all of them fit, a
// full refund would give back units of other requests.
func (v *Verdict) recorded(k *ask, terms sluice.Outcomes) {
	p := v.presumptions()
	for j := k.first; j < k.first+k.n; j++ {
		c, of := &v.charges[j].Charge, v.extra(j)
		of.presumed, terms = spent(c, terms)
		if p != nil && of.presumed > 0 {
			p.begin(v.budget(c), of.presumed)
		}
	}
}

// Awaiting yields the keys that wait for the response: a unique text for each key of a rule
// for which Settle may have something to do. It may yield one twice. It yields none for a
// budget of all clients together.
func (v *Verdict) Awaiting() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range v.charges {
			c := &v.charges[i]
			if c.Key != "" && awaits(c.level.rule.Rule) && !yield(c.level.Scope+" "+c.Key) {
				return
			}
		}
		for i := range v.holds {
			h := &v.holds[i]
			if h.key != "" && !yield(h.level.Scope+" "+h.key) {
				return
			}
		}
	}
}

// timed reports whether the charge of the request depends on how long it runs.
func (v *Verdict) timed() bool {
	if v.needs&needsTime == 0 {
		return false
	}
	for i := range v.charges {
		if v.charges[i].level.rule.Cost.Of == policy.Milliseconds {
			return true
		}
	}
	return false
}

// counts reports whether a response of a status counts.
func counts(w *policy.When, status int) bool {
	return slices.ContainsFunc(w.Status, func(s policy.Status) bool { return s.From <= status && status <= s.To })
}

// awaits reports whether the rule's charges depend on the response.
func awaits(r *policy.Rule) bool { return r.When != nil || r.Cost.Afterwards() }

// cancel gives back the charges of an allowed request that was not passed on after all, as
// its client hung up while it was delayed. It replaces settleBy and calls the store in the
// same way.
func (v *Verdict) cancel(ctx context.Context) error {
	return v.settle(ctx, func(*charge) int64 { return 0 })
}

func (v *Verdict) settle(ctx context.Context, actual func(*charge) int64) error {
	if !v.Allowed || v.peek || v.settled {
		return nil
	}
	v.settled = true
	v.vacate(ctx)
	if v.opens != nil { // the caller that named it settles it
		return v.release(ctx)
	}
	return errors.Join(v.release(ctx), v.correctAll(ctx, actual))
}

// correctAll changes each charge to its actual cost.
func (v *Verdict) correctAll(ctx context.Context, actual func(*charge) int64) error {
	v.requests, v.results = v.requests[:0], v.results[:0]
	var moved []sluice.Charge // of all requests, one after the other
	for i := range v.asks {
		k := &v.asks[i]
		if k.result.Err != nil || !k.result.Decision.Allowed || k.left {
			continue // nothing is charged
		}
		for j := k.first; j < k.first+k.n; j++ {
			v.extra(j).actual = actual(&v.charges[j])
		}
		v.keepOwed(k)
		if k.held {
			v.requests = append(v.requests, v.settlement(k))
			continue
		}
		moved = v.correct(k, moved, sluice.OpRefund)
		moved = v.correct(k, moved, sluice.OpCharge)
	}
	if len(v.requests) == 0 && !v.presumes() {
		return nil
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	return errors.Join(v.move(ctx), v.endPresumed(ctx))
}

// move sends the corrections to the store.
func (v *Verdict) move(ctx context.Context) error {
	for i := range v.requests {
		if req := &v.requests[i]; req.Op == sluice.OpCharge {
			v.clear(ctx, req)
		}
	}
	switch len(v.requests) {
	case 0:
		return nil
	case 1:
		_, err := v.evaluator.opts.Store.Take(ctx, v.requests[0])
		if err = v.again(ctx, &v.requests[0], err); err != nil {
			return err
		}
		return v.owe(ctx, &v.requests[0])
	}
	for range v.requests {
		v.results = append(v.results, sluice.Result{})
	}
	if err := sluice.TakeBatch(ctx, v.evaluator.opts.Store, v.requests, v.results); err != nil {
		return err
	}
	var errs []error
	for i := range v.results {
		err := v.again(ctx, &v.requests[i], v.results[i].Err)
		if err == nil {
			err = v.owe(ctx, &v.requests[i])
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// correct adds the request that refunds the excess of an ask, or charges the shortfall.
func (v *Verdict) correct(k *ask, moved []sluice.Charge, op sluice.Op) []sluice.Charge {
	first := len(moved)
	for j := k.first; j < k.first+k.n; j++ {
		c, of := &v.charges[j], v.extra(j)
		was := c.Cost
		if k.peek {
			was = of.presumed
		}
		more := of.actual - was
		if op == sluice.OpRefund {
			more = -more
		}
		if more > 0 {
			charge := sluice.Charge{Plan: c.Plan, Key: c.Key, Cost: more}
			if op == sluice.OpRefund {
				charge.Counted = was
			}
			moved = append(moved, charge)
		}
	}
	if n := len(moved); n > first {
		req := sluice.Request{Op: op, Charge: moved[first], More: moved[first+1 : n : n]}
		if op == sluice.OpRefund {
			req.At, req.Due = k.result.Decision.At, k.result.Decision.Due
		} else {
			v.besidePresumed(&req)
		}
		v.requests = append(v.requests, req)
	}
	return moved
}
