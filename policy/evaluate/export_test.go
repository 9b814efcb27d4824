// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Plain decides requests into verdicts and leaves their delays to its caller. Its fields may
// change between requests.
type Plain struct {
	Policy    *policy.Policy
	Overrides *Overrides
	Store     sluice.Store
	Slots     sluice.SlotStore
	MaxWait   time.Duration
	Now       func() time.Time

	made *Evaluator
}

func (p *Plain) evaluator() *Evaluator {
	if e := p.made; e != nil && e.opts.Policy == p.Policy && e.opts.Store == p.Store && e.opts.Slots == p.Slots && e.opts.MaxWait == p.MaxWait && e.opts.Overrides == p.Overrides {
		return e
	}
	e, err := New(Options{Policy: p.Policy, Store: p.Store, Slots: p.Slots, MaxWait: p.MaxWait, Overrides: p.Overrides, Now: p.Now, CallerWaits: true})
	if err != nil {
		panic(err)
	}
	p.made = e
	return e
}

// Decide decides a request as an Evaluator does, without its hooks.
func (p *Plain) Decide(ctx context.Context, a policy.Attributes, v *Verdict) {
	v.evaluator = p.evaluator()
	v.evaluator.evaluate(ctx, a, v, false)
}

// Peek is Decide without charges.
func (p *Plain) Peek(ctx context.Context, a policy.Attributes, v *Verdict) {
	v.evaluator = p.evaluator()
	v.evaluator.evaluate(ctx, a, v, true)
}

// Explain calls the Evaluator's Explain.
func (p *Plain) Explain(ctx context.Context, a policy.Attributes) (*Explanation, error) {
	return p.evaluator().Explain(ctx, a)
}

func (v *Verdict) Settle(ctx context.Context, r policy.Response) error { return v.settleBy(ctx, r) }
func (v *Verdict) Settles() bool                                       { return v.settles() }
func (v *Verdict) Cancel(ctx context.Context) error                    { return v.cancel(ctx) }
func (v *Verdict) Presume(ctx context.Context) error                   { return v.presume(ctx) }
func (v *Verdict) Renew(ctx context.Context) (bool, error)             { return v.renew(ctx) }
func (v *Verdict) Lease() time.Duration                                { return v.lease() }

// Has reports whether a key has an override.
func (t *Overrides) Has(scope, key string) bool { return t.find(scope, key) != nil }
