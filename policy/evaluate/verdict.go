// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"iter"
	"math/bits"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/instants"
	"github.com/sluicegate/sluice/policy"
)

// Verdict is the outcome of a request, which a [Call] holds. A
// used Verdict may be used again and keeps its memory. It belongs to one goroutine at a
// time. Errors of its methods are the store's.
type Verdict struct {
	// Allowed says that the request may pass, after Decision.Delay. A request
	// that no rule matches is allowed.
	Allowed bool
	// Decision describes the limit that binds, among all active rules; its Binding is an
	// index into Outcomes. It is zero if no limit binds.
	Decision sluice.Decision
	// Refused is the reason why a request is refused: a key is missing or not usable, which is
	// the client's fault. It is nil if the request is not refused.
	Refused *policy.PartError
	// InFlight is the limit of requests in flight that denied, nil if none did. Nothing
	// was charged then, and Decision.RetryAfter is an upper bound: another request may end
	// sooner.
	InFlight *InFlight
	// Err is the error of the store; Allowed then follows from Failure. With a denial it
	// may also be an error of giving back units that another rule had charged.
	Err error
	// Failure is the failure policy of the rules that the store did not decide.
	Failure sluice.Failure
	// Limits is the number of Outcomes.
	Limits int
	// Shapes are the charges that slow down the bytes of the request, or of its response, by
	// Rule.Cost. There are none if the request was refused.
	Shapes []Shape
	// Unlimited are the levels of active rules that apply to the request and do not limit it,
	// as its tier has no limits. Outcomes does not yield them.
	Unlimited []*policy.CompiledLevel
	// Stated are, once [Call.Settle] has returned, the rules whose cost is a header field of
	// the response and was stated there, and Unstated those whose field was missing or not
	// usable: their cost stays the estimate. A response that was not seen, or does not count,
	// is in neither.
	Stated, Unstated []*policy.Rule

	evaluator  *Evaluator
	waiter     *waiter       // until the request may pass; nil if it does not wait
	waitKey    waitKey       // of its place in the queue
	queued     bool          // it has a place
	waits      bool          // it has a place and waits
	full       error         // the reason why it has no place although it may wait
	most       time.Duration // the longest delay; 0: left to the limits
	spots      []instants.Charge[spot]
	attributes policy.Attributes
	left       time.Duration // until the request's deadline; 0: it has none
	owner      string        // of the slots
	holds      []hold
	hold       sluice.Hold // of the first ask, if that is held
	joint      bool        // the only hold is decided with the units, as slot
	slot       sluice.Slot
	cost       *int64       // in place of the rules' costs; may be nil
	opens      *sluice.Hold // the hold that the caller has named; may be nil
	peek       bool
	settled    bool
	bound      bool // whether a limit binds
	degraded   bool // a failure policy decided in place of the store
	binding    place
	matches    policy.Matches
	needs      needs // of the rules that match
	terms      int   // number of limits in asks
	enforced   int   // number of asks of active rules, which come first
	charges    []charge
	extras     []extra // of charges; may be shorter
	trials     []charge
	asks       []ask
	flat       []sluice.Charge
	outcomes   []sluice.Outcome
	requests   []sluice.Request
	results    []sluice.Result
	sideErrs   []Trial
}

// reset makes v the verdict of another request, for the same evaluator.
func (v *Verdict) reset(a policy.Attributes, peek bool) {
	v.Allowed, v.Decision, v.Failure, v.attributes = false, sluice.Decision{}, sluice.FailOpen, a
	overwrite(&v.Refused, nil)
	overwrite(&v.InFlight, nil)
	overwrite(&v.waiter, nil)
	if v.Err != nil || v.full != nil {
		v.Err, v.full = nil, nil
	}
	v.Limits, v.terms, v.left, v.needs, v.enforced = 0, 0, 0, 0, 0
	v.joint, v.peek, v.settled, v.bound, v.degraded = false, peek, false, false, false
	// The slices keep their memory for the next request.
	v.holds = v.holds[:0]
	v.charges = v.charges[:0]
	v.extras = v.extras[:0]
	v.trials = v.trials[:0]
	v.asks = v.asks[:0]
	v.flat = v.flat[:0]
	v.outcomes = v.outcomes[:0]
	v.sideErrs = v.sideErrs[:0]
	v.Shapes = v.Shapes[:0]
	v.Unlimited = v.Unlimited[:0]
	v.Stated = v.Stated[:0]
	v.Unstated = v.Unstated[:0]
}

// overwrite sets *p to v. It tests before it writes: while garbage is collected, writing a
// pointer costs more, and the next request mostly has the same.
func overwrite[T any](p **T, v *T) {
	if *p != v {
		*p = v
	}
}

// now returns the time of the clock by which requests wait.
func (v *Verdict) now() time.Time { return v.evaluator.clock.Now() }

// Shape is the charge of one level of a rule that shapes, for the bytes of a request. The
// code that passes the bytes on reserves them in parts: with OpReserve, the Charge at a Cost
// of as many bytes, and MaxWait.
type Shape struct {
	Rule    *policy.Rule
	Level   *policy.Level
	Charge  sluice.Charge // its Cost is 0
	MaxWait time.Duration // of each part
}

// Outcome is one limit's result for a request, under an active rule.
type Outcome struct {
	Rule  *policy.Rule
	Level *policy.Level
	Key   string
	Cost  int64 // units
	// Limit is the limit with its defaults; in a decision by [sluice.FailLocal], the
	// node's share of it. Soft says that it is a soft limit, Grace that it is the grace
	// limit of a soft one that denied.
	Limit       *sluice.Term
	Soft, Grace bool
	// Tier is the tier whose limit it is, empty for a limit of the level itself or of an
	// override.
	Tier string
	// Degraded says that a failure policy decided in place of the store. Err is why there
	// was no decision; then all other results are zero, and the rule's Failure applies.
	Degraded bool
	Err      error
	sluice.Outcome

	several bool // its key is under several limits
}

// place is the position of an active limit and its outcome in a verdict.
type place struct{ ask, charge, term, outcome int }

// active yields the places of all active limits of the request.
func (v *Verdict) active(yield func(place) bool) {
	for i := range v.enforced {
		k := &v.asks[i]
		at := k.outcomes
		for j := k.first; j < k.first+k.n; j++ {
			for t := range v.charges[j].Plan.Len() {
				if !yield(place{i, j, t, at}) {
					return
				}
				at++
			}
		}
	}
}

// Outcomes returns the outcomes of all active limits of the request, in the order of the
// rules; those of rules that count responses come last. They are valid until v is used
// again. There are none if no rule applied, or the request was refused; they are zero where
// the store has not decided.
func (v *Verdict) Outcomes() iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		for p := range v.active {
			if !yield(v.outcome(p)) {
				return
			}
		}
	}
}

// outcome describes the limit at a place.
func (v *Verdict) outcome(p place) (o Outcome) {
	c, of := &v.charges[p.charge], &v.asks[p.ask].result
	o.Rule, o.Level, o.Key, o.Cost, o.Limit = c.level.rule.Rule, c.level.Level, c.Key, c.Cost, c.Plan.Term(p.term)
	if of.Decision.Nodes > 1 {
		o.Limit = &c.names(of.Decision.Nodes).terms[p.term]
	}
	o.several, o.Tier = c.set.several, c.set.tier
	if c.set.Soft == p.term {
		o.Soft, o.Grace = !c.over, c.over
	}
	o.Degraded, o.Err = of.Decision.Degraded, of.Err
	o.Outcome = *v.reported(p, &o.Outcome)
	return o
}

// reported returns the outcome at a place; it uses buf if that differs from the store's.
func (v *Verdict) reported(p place, buf *sluice.Outcome) *sluice.Outcome {
	c, o := &v.charges[p.charge], &v.outcomes[p.outcome]
	if c.over && !o.Allowed && c.set.Soft == p.term {
		// The request passes again when either limit has room.
		soft := &v.extra(p.charge).soft
		*buf = *o
		buf.TooLarge, buf.RetryAfter = o.TooLarge && soft.TooLarge, min(o.RetryAfter, soft.RetryAfter)
		return buf
	}
	return o
}

// Binding returns the outcome of the limit that binds, among all active rules or, if r is not
// nil, among the limits of r. ok is false if no limit binds.
func (v *Verdict) Binding(r *policy.Rule) (o Outcome, ok bool) {
	if r == nil {
		if v.bound {
			o = v.outcome(v.binding)
		}
		return o, v.bound
	}
	var best share
	for other := range v.Outcomes() {
		if other.Rule != r {
			continue
		}
		is := share{other.Outcome, other.Cost}
		if !ok || best.Allowed && !is.Allowed || best.Allowed == is.Allowed && tighter(&is, &best, is.Allowed) {
			best, o, ok = is, other, true
		}
	}
	return o, ok
}

// Warning is a soft limit that a request went over.
type Warning struct {
	Name  string // of the limit that denied, as in answers
	Rule  *policy.Rule
	Level *policy.Level
	Soft  *sluice.Term   // the limit that it went over
	Grace *sluice.Term   // the limit that it drew on instead
	Left  sluice.Outcome // the outcome of the grace limit
}

// Warnings returns the soft limits that the request went over. The answer to an allowed
// request should carry its warnings.
func (v *Verdict) Warnings() iter.Seq[Warning] {
	return func(yield func(Warning) bool) {
		if v.needs&needsGrace == 0 {
			return
		}
		for i := range v.asks {
			k := &v.asks[i]
			if k.role != taken {
				return
			}
			at := k.outcomes
			for j := k.first; j < k.first+k.n; j++ {
				c := &v.charges[j]
				at += c.Plan.Len()
				if !c.over {
					continue
				}
				last := c.Plan.Len() - 1
				w := Warning{Name: levelName(c.level.rule.Rule, c.level.Level), Rule: c.level.rule.Rule, Level: c.level.Level, Soft: c.set.Take.Term(last), Grace: c.set.Over.Term(last), Left: v.outcomes[at-1]}
				if !yield(w) {
					return
				}
			}
		}
	}
}

// failing returns the failure policy of all active rules of an ask.
func (v *Verdict) failing(k *ask) sluice.Failure {
	worst := sluice.FailOpen
	for j := k.first; j < k.first+k.n; j++ {
		worst = max(worst, v.charges[j].level.rule.Failure)
	}
	if v.joint && k.role == taken {
		worst = max(worst, v.holds[0].level.rule.Failure)
	}
	return worst
}

// binds finds the limit that binds and copies its outcome into the decision.
func (v *Verdict) binds() {
	if k := &v.asks[0]; v.enforced == 1 && k.terms == 1 && v.needs&needsGrace == 0 && k.result.Err == nil { // the decision is enough
		v.bound, v.binding, v.Decision.Binding = true, place{0, k.first, 0, k.outcomes}, 0
		return
	}
	i := -1
	var best, o share
	for p := range v.active {
		if i++; v.asks[p.ask].result.Err != nil {
			continue
		}
		o.cost = v.charges[p.charge].Cost
		o.Outcome = *v.reported(p, &o.Outcome)
		if v.Allowed == o.Allowed && (!v.bound || tighter(&o, &best, v.Allowed)) {
			best, v.bound, v.binding, v.Decision.Binding = o, true, p, i
		}
	}
	v.Decision.TooLarge = best.TooLarge
	v.Decision.Remaining, v.Decision.RetryAfter, v.Decision.ResetAfter = best.Remaining, best.RetryAfter, best.ResetAfter
}

// share is an outcome with its cost.
type share struct {
	sluice.Outcome
	cost int64
}

func tighter(a, b *share, allowed bool) bool {
	if !allowed {
		return a.TooLarge && !b.TooLarge || a.TooLarge == b.TooLarge && a.RetryAfter > b.RetryAfter
	}
	// a.Remaining/a.cost < b.Remaining/b.cost
	ahi, alo := bits.Mul64(uint64(max(a.Remaining, 0)), uint64(max(b.cost, 1)))
	bhi, blo := bits.Mul64(uint64(max(b.Remaining, 0)), uint64(max(a.cost, 1)))
	return ahi < bhi || ahi == bhi && alo < blo
}
