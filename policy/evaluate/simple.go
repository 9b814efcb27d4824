// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"

	"github.com/sluicegate/sluice"
)

// isSimple reports whether the rule, if no other matches, only ever charges a fixed cost to
// one key under one limit.
func (r *rule) isSimple() bool {
	if r.needs != taken.needs() || len(r.levels) != 1 {
		return false
	}
	l := &r.levels[0]
	return l.base != nil && l.base.Take.Len() == 1 && len(l.overrides) == 0 && l.Tiers == nil
}

// simple decides under a simple rule alone, and reports whether it has: a key with an override
// may have other limits. It leaves v as collect, layout, ask and combine
// would, but skips checks that a simple rule does not need (TestSimpleEqualsGeneral).
func (v *Verdict) simple(ctx context.Context, r *rule) (decided bool) {
	l := &r.levels[0]
	v.needs = r.needs
	key, ok, err := v.matches.Key(0, l.CompiledLevel)
	if err != nil && v.impossible(r, l, err) || v.Failure != sluice.FailOpen {
		return true
	}
	if !ok {
		v.Allowed = true
		return true
	}
	if s, _ := v.override(l, key); s != nil {
		return false
	}
	c := another(&v.charges)
	c.rule, c.level, c.set, c.candidate, c.over = r, l, l.base, nil, false
	c.Plan, c.Key, c.Cost, c.Held = l.base.Take, key, r.cost, 0
	v.add(taken, 0, false)
	v.enforced = 1
	another(&v.outcomes)
	k := &v.asks[0]
	if v.claims(k) {
		v.claim(ctx, k) // it gives back what others have left and never waits
	}
	d := &k.result.Decision
	*d, k.result.Err = v.store.Take(ctx, sluice.Request{Charge: c.Charge})
	v.fill(k)
	if k.result.Err != nil {
		v.combine(ctx)
		return true
	}
	if d.Binding != 0 { // from a store that counts otherwise
		d.Binding = 0
	}
	v.Decision, v.Allowed = *d, d.Allowed
	v.bound, v.binding = true, place{}
	if !v.Allowed {
		v.Decision.Delay, v.Decision.Due, v.Decision.Spent = 0, v.Decision.At, 0
	}
	return true
}
