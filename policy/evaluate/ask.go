// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/caller"
)

// ask sends all charges to the store at once. Charges over a soft limit, and over no other,
// are sent once more under their grace limit.
func (v *Verdict) ask(ctx context.Context) {
	first := &v.asks[0]
	if v.needs&needsGrace != 0 && first.role == taken && !v.peek && v.deniesCount(first) {
		// A denial would be counted although the request may pass on its grace limit, so
		// peek first. If another request spends the soft limit in between, this one is
		// denied, which errs on the side of the limit.
		v.peek = true
		v.single(ctx, first)
		v.peek = false
		if first.result.Err == nil {
			v.switchOver(first)
		}
	}
	v.all(ctx)
	if v.needs&needsGrace == 0 {
		return
	}
	// Each turn replaces at least one soft limit by its grace limit, and a charge has
	// one soft limit at most.
	for range first.n {
		if first.role != taken || first.result.Err != nil || v.slotDenies() || v.responsesDeny() || !v.switchOver(first) {
			return
		}
		v.single(ctx, first)
	}
}

// responsesDeny reports whether a rule that counts responses denies already.
func (v *Verdict) responsesDeny() bool {
	k := v.counted()
	return k != nil && k.result.Err == nil && !k.result.Decision.Allowed
}

func (v *Verdict) counted() *ask {
	if v.needs&counted.needs() == 0 {
		return nil
	}
	for i := range v.asks[:v.enforced] {
		if v.asks[i].role == counted {
			return &v.asks[i]
		}
	}
	return nil
}

// deniesCount reports whether an ask has both a soft limit and a limit that counts
// denied requests.
func (v *Verdict) deniesCount(k *ask) bool {
	soft, counts := false, false
	for j := k.first; j < k.first+k.n; j++ {
		soft = soft || v.charges[j].set.Over != nil
		counts = counts || v.charges[j].set.counts
	}
	return soft && counts
}

// switchOver replaces each soft limit that denied by its grace limit, if no other limit
// denied. It reports whether it replaced any.
func (v *Verdict) switchOver(k *ask) bool {
	if k.result.Decision.Allowed {
		return false
	}
	switched := false
	for pass := range 2 { // the first pass only looks: one other denial is enough
		at := k.outcomes
		for j := k.first; j < k.first+k.n; j++ {
			c := &v.charges[j]
			soft := c.set.Soft
			for t := range c.Plan.Len() {
				o := &v.outcomes[at]
				at++
				switch {
				case o.Allowed:
				case t != soft || c.over:
					return false
				case pass == 1:
					v.extra(j).soft = *o
					c.over, c.Plan = true, c.set.Over
					if len(v.flat) > 0 {
						v.flat[j].Plan = c.Plan
					}
					switched = true
				}
			}
		}
	}
	return switched
}

// single sends one ask to the store.
func (v *Verdict) single(ctx context.Context, k *ask) {
	if v.claims(k) && v.claim(ctx, k) {
		return
	}
	var req sluice.Request
	v.request(&req, k, sluice.OpTake)
	k.result.Decision, k.result.Err = v.evaluator.opts.Store.Take(ctx, req)
	v.fill(k)
}

// all sends all asks to the store.
func (v *Verdict) all(ctx context.Context) {
	if len(v.asks) == 1 {
		v.single(ctx, &v.asks[0])
		return
	}
	asks := v.asks
	if v.claims(&asks[0]) && v.claim(ctx, &asks[0]) {
		asks = asks[1:]
	}
	v.requests, v.results = v.requests[:0], v.results[:0]
	for i := range asks {
		v.requests, v.results = append(v.requests, sluice.Request{}), append(v.results, sluice.Result{})
		v.request(&v.requests[i], &asks[i], sluice.OpTake)
	}
	err := sluice.TakeBatch(ctx, v.evaluator.opts.Store, v.requests, v.results)
	for i := range asks {
		k := &asks[i]
		k.result = v.results[i]
		if err != nil {
			k.result = sluice.Result{Err: err}
		}
		v.fill(k)
	}
}

// fill writes the outcome of an ask under a single limit, and clears the outcomes of an
// ask that failed.
func (v *Verdict) fill(k *ask) {
	outcomes := v.outcomes[k.outcomes : k.outcomes+k.terms]
	switch d := &k.result.Decision; {
	case k.result.Err != nil:
		clear(outcomes)
	case k.terms == 1:
		o := &outcomes[0]
		o.Allowed, o.TooLarge, o.Remaining = d.Allowed, d.TooLarge, d.Remaining
		o.RetryAfter, o.ResetAfter, o.Spent = d.RetryAfter, d.ResetAfter, 0
	}
}

// combine makes one verdict of the results of the active rules.
func (v *Verdict) combine(ctx context.Context) {
	v.Allowed, v.Limits = true, 0
	if v.enforced == 0 {
		return
	}
	var errs []error
	for i := range v.enforced {
		k := &v.asks[i]
		v.Limits += k.terms
		v.degraded = v.degraded || k.result.Decision.Degraded
		if k.result.Err == nil {
			v.Allowed = v.Allowed && k.result.Decision.Allowed
			continue
		}
		errs = append(errs, k.result.Err)
		v.Failure = max(v.Failure, v.failing(k))
		if _, refused := errors.AsType[*sluice.RequestError](k.result.Err); refused {
			v.Failure = sluice.FailClosed // not an outage, which might pass
		}
	}
	if len(errs) > 0 && caller.Left(ctx) != nil {
		v.Failure = sluice.FailClosed // the caller did not wait for the store
	}
	v.Allowed = v.Allowed && (len(errs) == 0 || v.Failure == sluice.FailOpen)
	if first := &v.asks[0]; first.role == taken && first.result.Err == nil {
		if v.Decision = first.result.Decision; first.held && v.Decision.At == 0 {
			v.Decision.At, v.Decision.Hold = v.Decision.Due-sluice.Instant(v.Decision.Delay.Microseconds()), 0 // its settlement needs no receipt
		}
		if first.result.Decision.Allowed && !v.Allowed && !v.peek {
			// Another rule denied the request that this ask was charged for.
			if err := v.giveBack(ctx, first); err != nil {
				errs = append(errs, err)
			}
		}
	} else if k := v.counted(); k != nil && k.result.Err == nil {
		v.Decision = k.result.Decision
	}
	v.Decision.Allowed = v.Allowed
	if len(errs) > 0 {
		v.Err = errors.Join(v.Err, errors.Join(errs...))
	}
	v.binds()
	if !v.Allowed {
		v.undoLate()
		v.Decision.Delay, v.Decision.Due, v.Decision.Spent = 0, v.Decision.At, 0
	}
}

// undoLate has the store give back late charges of a request that is not passed on.
func (v *Verdict) undoLate() {
	for i := range v.enforced {
		if late, ok := errors.AsType[*sluice.MaybeSentError](v.asks[i].result.Err); ok {
			late.Undo(nil)
		}
	}
}

// giveBack refunds all charges of an ask.
func (v *Verdict) giveBack(ctx context.Context, k *ask) error {
	if v.vacate(ctx) {
		return nil
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	_, err := v.evaluator.opts.Store.Take(ctx, v.refund(k))
	return err
}

func (v *Verdict) refund(k *ask) (req sluice.Request) {
	if k.held {
		undo, _ := v.heldRequest(k).Undo(k.result.Decision)
		return undo
	}
	v.request(&req, k, sluice.OpRefund)
	req.At, req.Due = k.result.Decision.At, k.result.Decision.Due
	return req
}
