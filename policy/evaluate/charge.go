// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"cmp"
	"errors"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

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
	if r.When != nil && !r.When.ChargeFirst {
		return counted
	}
	return taken
}

// charge is the charge of one level of one rule.
type charge struct {
	level     *level
	set       *set // nil for a candidate
	candidate int  // the position of a candidate in its level
	over      bool // the soft limit denied, so its grace limit is charged
	sluice.Charge
}

// extra holds the fields that few charges need: for a soft limit's denial and for the
// response.
type extra struct {
	soft     sluice.Outcome // of the soft limit that denied
	presumed int64          // units charged before the response, if the ask was a peek
	held     int64          // units held, if the ask holds units
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
	peek     bool // a peek: its charges are made after the response, or never
	presumed bool // a peek that was charged before the response, as its client left
	left     bool // its units were left to another request
	held     bool // its units are held until they are settled
	first, n int  // its charges
	outcomes int  // index of its first outcome
	terms    int  // number of its outcomes
	room     sluice.Outcomes
	result   sluice.Result
}

// collect finds the charges of the request: those of active rules first, then those of
// rules that count responses, then each shadow rule and each candidate by itself.
func (v *Verdict) collect() {
	for i := range v.matches.Len() {
		v.needs |= v.rule(i).needs
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
}

func (v *Verdict) collectRole(role role) {
	if v.needs&role.needs() == 0 || v.Refused != nil {
		return
	}
	first := len(v.charges)
	for i := range v.matches.Len() {
		r := v.rule(i)
		if r.needs&role.needs() == 0 {
			continue
		}
		if role == shadowed {
			first = len(v.charges)
		}
		for j := range r.levels {
			if err := v.collectLevel(i, r, &r.levels[j], role); err != nil && v.impossible(r, &r.levels[j], err) {
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

// rule returns the i-th rule that matched.
func (v *Verdict) rule(i int) *rule { return &v.evaluator.rules[v.matches.At(i)] }

// collectLevel adds the charges of a level of the i-th rule that matched. The error is the
// reason why it cannot.
func (v *Verdict) collectLevel(i int, r *rule, l *level, role role) error {
	key, ok, err := v.matches.Key(i, l.CompiledLevel)
	if err != nil || !ok {
		return err
	}
	s, cost := l.base, r.cost
	if l.Limited {
		if s, err = v.set(i, l, key); err != nil {
			return err
		}
	}
	switch {
	case v.cost != nil:
		cost = *v.cost
	case r.needs&needsCost != 0 && s != nil && role != shaping:
		if cost, err = before(r.Rule, v.attributes); err != nil {
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
	overwrite(&c.level, l)
	overwrite(&c.set, s)
	overwrite(&c.Plan, s.Take)
	c.over, c.Key, c.Cost, c.Counted = false, key, cost, 0
	return nil
}

// collectBeside adds the parts of a level besides its limits.
func (v *Verdict) collectBeside(r *rule, l *level, s *set, role role, key string, cost int64) {
	if s == nil && l.Limited && role != shadowed {
		v.Unlimited = append(v.Unlimited, l.CompiledLevel)
	}
	if role == shaping {
		if s != nil {
			wait := cmp.Or(r.MaxWait, bounds.ShapeTurn)
			v.Shapes = append(v.Shapes, Shape{Rule: r.Rule, Level: l.Level, MaxWait: wait, Charge: sluice.Charge{Plan: s.Take, Key: key}})
		}
		return
	}
	if l.InFlight != nil {
		v.holds = append(v.holds, hold{level: l, key: key})
	}
	if s == nil { // at most a limit of requests in flight
		return
	}
	for j := range l.Candidates {
		if plan := l.ByCandidate[j][s.Set]; plan != nil {
			v.trials = append(v.trials, charge{level: l, candidate: j, Charge: sluice.Charge{Plan: plan, Key: key, Cost: cost}})
		}
	}
}

// candidates adds an ask for each candidate.
func (v *Verdict) candidates() {
	for _, k := range v.trials {
		v.charges = append(v.charges, k)
		v.add(candidacy, len(v.charges)-1, k.level.rule.phase() == counted)
	}
}

// impossible records the reason why a request cannot be charged under a level. It reports
// whether the request is refused.
func (v *Verdict) impossible(r *rule, l *level, err error) bool {
	if r.Shadow {
		v.sideErrs = append(v.sideErrs, Trial{Rule: r.Rule, Level: l.Level, Shadow: true, Err: err})
		return false
	}
	if bad, ok := err.(*policy.PartError); ok { //nolint:errorlint // it is never wrapped here
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
		k.role, k.peek, k.presumed, k.left, k.held = role, peek, false, false, false
		k.first, k.n = first, n
	}
}

// another lengthens a slice by an element and returns that element, whose fields keep old
// values. The caller sets all of them in place: making and copying an element costs more.
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

// request fills the empty req with the store's request for an ask.
func (v *Verdict) request(req *sluice.Request, k *ask, op sluice.Op) {
	req.Op, req.Charge = op, v.charges[k.first].Charge
	if k.n > 1 {
		req.More = v.flat[k.first+1 : k.first+k.n : k.first+k.n]
	}
	if op != sluice.OpTake {
		return
	}
	if v.delays() {
		req.Op, req.MaxWait, _ = v.wait(k)
	}
	req.Hold = v.opens
	if k.peek || v.peek {
		req.Op, req.MaxWait = sluice.OpPeek, 0
	}
	switch k.held = false; {
	case k.role != taken || req.Op != sluice.OpTake:
	case v.joint:
		req.Slot = &v.slot
	case v.opens == nil && v.needs&needsHold != 0:
		req.Hold = v.holdOf(k)
	}
	if k.terms > 1 { // for a single limit the decision is enough
		k.room = v.outcomes[k.outcomes : k.outcomes+k.terms]
		req.Outcomes = &k.room
	}
}
