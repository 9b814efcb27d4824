// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Evaluator decides requests under one policy. It holds no state of its own and is
// safe for concurrent use. For another policy make another Evaluator: states live
// in the store under the names of rules and limits, so that a changed limit keeps the
// units spent under the old one. Requests that were decided already are settled under the
// policy that decided them.
type Evaluator struct {
	Policy *Policy
	Store  sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it is a
	// [sluice.SlotStore]: then one call decides a request's only slot and its
	// units, unless the request may wait or a candidate is charged as well.
	Slots sluice.SlotStore
	// MaxWait is how long a request may be delayed until it fits, whatever the
	// algorithm; at most sluice.MaxWait. Zero leaves it to the rules, and to limits
	// that queue, such as a leaky bucket.
	MaxWait time.Duration
	// Now says which overrides have expired. Nil means time.Now.
	Now func() time.Time

	front *Front // delays the requests; nil if the caller does
}

// Decide charges a request under all rules that match it, except rules that shape, and
// fills v, which may have been used before: [Verdict.Shapes] returns the limits that slow
// its bytes down. It calls the store once, once more for a request that goes over a soft
// limit, and once more to give units back if a rule that counts responses denies. It
// allocates little more than the keys.
//
// An allowed verdict must be followed by [Verdict.Settle] once the response is
// known, or by [Verdict.Cancel] if the request was not passed on.
func (e *Evaluator) Decide(ctx context.Context, a Attributes, v *Verdict) {
	e.evaluate(ctx, a, v, false)
}

// Peek fills v as Decide would, but charges nothing.
func (e *Evaluator) Peek(ctx context.Context, a Attributes, v *Verdict) {
	e.evaluate(ctx, a, v, true)
}

func (e *Evaluator) evaluate(ctx context.Context, a Attributes, v *Verdict, peek bool) {
	v.reset(e, a, peek)
	e.Policy.Match(a, &v.matches)
	if len(v.matches.hits) == 1 && v.maxWait == 0 && !peek {
		by := v.matches.hits[0]
		if r := &e.Policy.rules[by.rule]; r.simple {
			v.simple(ctx, r, by)
			return
		}
	}
	v.collect()
	if v.delays() {
		v.patience(ctx)
	}
	if v.Refused != nil || v.Failure != sluice.FailOpen || !peek && len(v.holds) > 0 && !v.joins() && !v.acquire(ctx) {
		v.asks, v.enforced = v.asks[:0], 0
		return
	}
	if len(v.asks) == 0 {
		v.Allowed = true
		return
	}
	v.layout()
	if len(v.charges) > sluice.MaxCharges && v.tooManyCharges(ctx) {
		return
	}
	if v.delays() {
		v.enterQueue()
	}
	if !v.askWithSlot(ctx) {
		v.asks, v.enforced = v.asks[:0], 0
		return
	}
	v.combine(ctx)
	if !v.Allowed && len(v.holds) > 0 {
		v.Err = errors.Join(v.Err, v.release(ctx))
	}
}

// tooManyCharges fails a request that is charged more than a store accepts, whatever the
// failure policies of its rules: the client caused it, and it does not pass.
func (v *Verdict) tooManyCharges(ctx context.Context) bool {
	for i := range v.enforced {
		k := &v.asks[i]
		if k.n <= sluice.MaxCharges {
			continue
		}
		v.Err = fmt.Errorf("policy: a request is charged under %d levels of rules at once; at most %d can be decided together: narrow what the rules match",
			k.n, sluice.MaxCharges)
		v.Failure = sluice.FailClosed
		v.asks, v.enforced = v.asks[:0], 0
		v.Err = errors.Join(v.Err, v.release(ctx))
		return true
	}
	return false
}

// role is the purpose of an ask.
type role uint8

const (
	taken     role = iota // active rules, charged before the response
	counted               // active rules that count responses: peeked at
	shadowed              // a shadow rule
	candidacy             // a candidate of a level
	shaping               // a rule that shapes
	asides
)

// role returns the purpose of a rule's charges.
func (r *rule) role() role {
	switch {
	case r.Shape:
		return shaping
	case r.Shadow:
		return shadowed
	}
	return r.phase()
}

// phase returns the ask that decides an enforced rule.
func (r *rule) phase() role {
	if r.When != nil && !r.When.Hold {
		return counted
	}
	return taken
}

// charge is the charge of one level of one rule.
type charge struct {
	rule      *rule
	level     *level
	set       *set       // nil for a candidate
	candidate *candidate // nil except for a candidate
	over      bool       // the soft limit denied, so its grace limit is charged
	sluice.Charge
}

// extra holds the fields that few charges need: for a soft limit's denial and for the
// response.
type extra struct {
	soft     sluice.Outcome // of the soft limit that denied
	presumed int64          // units charged before the response, if the ask was a peek
	actual   int64          // the cost after the response
}

// extra returns the extra of the j-th charge.
func (v *Verdict) extra(j int) *extra {
	for len(v.extras) < len(v.charges) {
		v.extras = append(v.extras, extra{})
	}
	return &v.extras[j]
}

// ask is one request to the store: charges that are decided together.
type ask struct {
	role     role
	peek     bool // a peek: charged after the response, or never
	presumed bool // but charged before the response, as its client left
	left     bool // its units were left to another request
	first, n int  // its charges
	outcomes int  // index of its first outcome
	terms    int  // number of its outcomes
	room     sluice.Outcomes
	result   sluice.Result
}

// collect finds the charges of the request: those of active rules first, then those of
// rules that count responses, then each shadow rule and each candidate by itself.
func (v *Verdict) collect() {
	for _, hit := range v.matches.hits {
		v.needs |= v.matches.of.rules[hit.rule].needs
	}
	v.collectRole(taken)
	v.enforced = len(v.asks)
	if v.needs&(counted.needs()|shadowed.needs()|shaping.needs()|needsSlot|needsTrial) == 0 {
		return
	}
	v.collectRole(counted)
	v.enforced = len(v.asks)
	v.collectRole(shadowed)
	v.collectRole(shaping)
	v.candidates()
	if len(v.holds) > 0 && v.slots == nil {
		v.slots, v.ownSlots = v.store.(sluice.SlotStore)
	}
}

func (v *Verdict) collectRole(role role) {
	if v.needs&role.needs() == 0 || v.Refused != nil {
		return
	}
	first := len(v.charges)
	for _, hit := range v.matches.hits {
		r := &v.matches.of.rules[hit.rule]
		if r.needs&role.needs() == 0 || r.needs&needsNetwork != 0 && within(r.ExemptNetworks, v.matches.found.client) {
			continue
		}
		if role == shadowed {
			first = len(v.charges)
		}
		for i := range r.levels {
			if err := v.collectLevel(r, &r.levels[i], role, hit); err != nil && v.impossible(r, &r.levels[i], err) {
				return
			}
		}
		if role == shadowed {
			v.add(role, first, r.phase() == counted)
		}
	}
	if role != shadowed {
		v.add(role, first, role == counted)
	}
}

// collectLevel adds the charges of a level. The error says why it cannot.
func (v *Verdict) collectLevel(r *rule, l *level, role role, by hit) error {
	key, ok, err := r.key(l, v, by)
	if err != nil || !ok {
		return err
	}
	s, cost := l.base, r.cost
	if l.limited && (len(l.overrides) > 0 || l.Tiers != nil) {
		if s, err = r.set(l, key, v, by); err != nil {
			return err
		}
	}
	if r.needs&needsCost != 0 && s != nil && role != shaping {
		if cost, err = r.before(v.attributes); err != nil {
			return err
		}
	}
	if s == nil || role == shaping || r.needs&(needsSlot|needsTrial) != 0 {
		v.collectBeside(r, l, s, role, key, cost)
		if s == nil || role == shaping {
			return nil
		}
	}
	c := another(&v.charges)
	c.rule, c.level, c.set, c.candidate, c.over = r, l, s, nil, false
	c.Plan, c.Key, c.Cost, c.Held = s.take, key, cost, 0
	return nil
}

// collectBeside adds the parts of a level besides its limits.
func (v *Verdict) collectBeside(r *rule, l *level, s *set, role role, key string, cost int64) {
	if s == nil && l.limited && role != shadowed {
		v.free = append(v.free, freed{&r.Rule, l.Level})
	}
	if role == shaping {
		if s != nil {
			wait := cmp.Or(r.MaxWait, bounds.ShapeTurn)
			v.shapes = append(v.shapes, Shape{Rule: &r.Rule, Level: l.Level, MaxWait: wait, Charge: sluice.Charge{Plan: s.take, Key: key}})
		}
		return
	}
	if l.InFlight != nil {
		v.holds = append(v.holds, hold{rule: r, level: l, key: key})
	}
	if s == nil { // at most a limit of requests in flight
		return
	}
	for j := range l.candidates {
		k := &l.candidates[j]
		if plan := k.plans[s]; plan != nil {
			v.trials = append(v.trials, charge{rule: r, level: l, candidate: k, Charge: sluice.Charge{Plan: plan, Key: key, Cost: cost}})
		}
	}
}

// candidates adds an ask for each candidate.
func (v *Verdict) candidates() {
	for _, k := range v.trials {
		v.charges = append(v.charges, k)
		v.add(candidacy, len(v.charges)-1, k.rule.phase() == counted)
	}
}

// impossible records why a request cannot be charged under a level. It reports whether the
// request is refused.
func (v *Verdict) impossible(r *rule, l *level, err error) bool {
	if r.Shadow {
		v.sideErrs = append(v.sideErrs, Trial{Rule: &r.Rule, Level: l.Level, Shadow: true, Err: err})
		return false
	}
	if bad, ok := err.(*PartError); ok { //nolint:errorlint // it is never wrapped here
		v.Refused = bad
		return true
	}
	v.Err, v.Failure = errors.Join(v.Err, err), max(v.Failure, r.Failure)
	return false
}

func (v *Verdict) add(role role, first int, peek bool) {
	if n := len(v.charges) - first; n > 0 {
		k := another(&v.asks)
		k.outcomes, k.terms = v.terms, 0
		for i := range v.charges[first:] {
			k.terms += v.charges[first+i].Plan.Len()
		}
		v.terms += k.terms
		k.role, k.peek, k.presumed, k.left = role, peek, false, false
		k.first, k.n = first, n
	}
}

// another lengthens a slice by an element and returns that element, which keeps its old
// fields. The caller sets all of them in place: making and copying an element costs more.
func another[T any](s *[]T) *T {
	n := len(*s)
	if n == cap(*s) {
		*s = slices.Grow(*s, 1)
	}
	*s = (*s)[:n+1]
	return &(*s)[n]
}

// layout makes room for the outcomes of the asks and, where an ask has several charges,
// copies the charges into one slice.
func (v *Verdict) layout() {
	if len(v.charges) > len(v.asks) {
		for i := range v.charges {
			v.flat = append(v.flat, v.charges[i].Charge)
		}
	}
	if cap(v.outcomes) < v.terms {
		v.outcomes = make([]sluice.Outcome, v.terms)
	}
	v.outcomes = v.outcomes[:v.terms]
}

// request returns the store's request of an ask.
func (v *Verdict) request(k *ask, op sluice.Op) sluice.Request {
	req := sluice.Request{Op: op, Charge: v.charges[k.first].Charge}
	if k.n > 1 {
		req.More = v.flat[k.first+1 : k.first+k.n : k.first+k.n]
	}
	if op != sluice.OpTake && op != sluice.OpPeek {
		return req
	}
	req.Op, req.MaxWait, _ = v.wait(k)
	if k.peek || v.peek {
		req.Op, req.MaxWait = sluice.OpPeek, 0
	}
	if v.joint && k.role == taken && req.Op == sluice.OpTake {
		req.Slot = &v.slot
	}
	if k.terms > 1 { // for a single limit the decision says all
		k.room = v.outcomes[k.outcomes : k.outcomes+k.terms]
		req.Outcomes = &k.room
	}
	return req
}
