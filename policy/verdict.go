// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"iter"
	"math/bits"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/instants"
)

// Verdict is the outcome of a request. The zero Verdict is ready for
// [Evaluator.Decide]; one that has been used keeps its memory and may be used
// again. It belongs to one goroutine at a time. Errors of its methods are the store's.
type Verdict struct {
	// Allowed says that the request may go on, after Decision.Delay. A request
	// that no rule matches is allowed.
	Allowed bool
	// Decision describes the limit that binds, among all of the active rules;
	// its Binding counts as Outcomes does. It is zero if there is none.
	Decision sluice.Decision
	// Refused says, of a request that is not allowed, that it lacks a usable
	// key: the client's fault, and no limit's.
	Refused *PartError
	// InFlight is the limit of requests in flight that has denied, nil if none
	// has. Nothing was charged then, and Decision.RetryAfter is the longest that
	// it can take; the end of another request may come sooner.
	InFlight *InFlight
	// Err is why the store has not decided; Allowed follows from Failure then.
	// With a denial it may also be that the store could not take back what
	// another rule had charged.
	Err error
	// Failure is the failure policy of the rules that the store did not decide.
	Failure sluice.Failure

	front      *Front        // see Evaluator
	waiter     *waiter       // until the request may go on; nil if it does not wait
	waitKey    waitKey       // of its place in the queue
	queued     bool          // it has a place
	waits      bool          // it has a place and waits
	full       error         // why it has no place, though it may wait
	most       time.Duration // the longest delay; 0: that of its limits
	spots      []instants.Charge[spot]
	store      sluice.Store
	slots      sluice.SlotStore
	ownSlots   bool // slots is the store
	attributes Attributes
	clock      func() time.Time // of overrides; nil: time.Now
	maxWait    time.Duration    // whatever the algorithm; 0: only for limits that queue
	left       time.Duration    // until the request's deadline; 0: it has none
	owner      string           // of the slots
	holds      []hold
	joint      bool // the only hold is asked for with the units, as slot
	slot       sluice.Slot
	peek       bool
	settled    bool
	bound      bool // whether a limit binds
	binding    place
	matches    Matches
	values     []string
	needs      needs // of the rules that match
	terms      int   // limits that are asked about
	enforced   int   // how many asks are of active rules; they come first
	charges    []charge
	extras     []extra // of charges; fewer if the others have none
	trials     []charge
	asks       []ask
	flat       []sluice.Charge
	outcomes   []sluice.Outcome
	requests   []sluice.Request
	results    []sluice.Result
	sideErrs   []Trial
	shapes     []Shape
	free       []freed
	stated     []stated
}

// stated is whether a response has named its cost under a rule.
type stated struct {
	rule *Rule
	ok   bool
}

func (v *Verdict) reset(e *Evaluator, a Attributes, peek bool) {
	v.Allowed, v.Decision, v.Refused, v.InFlight, v.Err, v.Failure = false, sluice.Decision{}, nil, nil, nil, sluice.FailOpen
	v.front, v.waiter, v.full, v.store, v.slots, v.attributes = e.front, nil, nil, e.Store, e.Slots, a
	v.terms, v.clock, v.maxWait, v.left, v.needs, v.enforced = 0, e.Now, e.MaxWait, 0, 0, 0
	v.ownSlots, v.joint, v.peek, v.settled, v.bound = false, false, peek, false, false
	// What they point to is kept for the next request.
	v.holds = v.holds[:0]
	v.charges = v.charges[:0]
	v.extras = v.extras[:0]
	v.trials = v.trials[:0]
	v.asks = v.asks[:0]
	v.flat = v.flat[:0]
	v.outcomes = v.outcomes[:0]
	v.sideErrs = v.sideErrs[:0]
	v.shapes = v.shapes[:0]
	v.free = v.free[:0]
	v.stated = v.stated[:0]
}

// now says which overrides have expired.
func (v *Verdict) now() time.Time {
	if v.clock == nil {
		return time.Now() //nolint:forbidigo // when an override ends, which is a date; no decision is computed of it
	}
	return v.clock()
}

// Outcome is one limit's result for a request, under an active rule.
type Outcome struct {
	Rule  *Rule
	Level *Level
	Key   string
	Cost  int64 // units
	// Limit is the limit, with its defaults: of a decision by [sluice.FailLocal] the
	// node's share of it. Soft says that it is a soft one,
	// Grace that it is the grace limit of one that has denied.
	Limit       *sluice.Term
	Soft, Grace bool
	// Degraded says that a failure policy decided in the store's place. Err is why
	// nothing did, and the rest is zero then: the rule's Failure holds.
	Degraded bool
	Err      error
	sluice.Outcome
}

// place is where a limit of the active rules, and its outcome, stand in a verdict.
type place struct{ ask, charge, term, outcome int }

// places returns those of an ask.
func (v *Verdict) places(i int) iter.Seq[place] {
	return func(yield func(place) bool) {
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

// active returns the places of all active limits that the request was charged
// under.
func (v *Verdict) active() iter.Seq[place] {
	return func(yield func(place) bool) {
		for i := range v.enforced {
			for p := range v.places(i) {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// Outcomes returns the outcomes of all active limits that the request was
// charged under, in the order of the rules; those that count responses come
// last. They are valid until v is used again. There are none if no rule
// applied, or the request was refused; where the store has not decided they are
// zero.
func (v *Verdict) Outcomes() iter.Seq[Outcome] {
	return func(yield func(Outcome) bool) {
		for p := range v.active() {
			if !yield(v.outcome(p)) {
				return
			}
		}
	}
}

// Limits returns how many outcomes there are.
func (v *Verdict) Limits() (n int) {
	for i := range v.enforced {
		n += v.asks[i].terms
	}
	return n
}

// outcome describes the limit at a place.
func (v *Verdict) outcome(p place) (o Outcome) {
	c, of := &v.charges[p.charge], &v.asks[p.ask].result
	o.Rule, o.Level, o.Key, o.Cost, o.Limit = &c.rule.Rule, c.level.Level, c.Key, c.Cost, c.Plan.Term(p.term)
	if of.Decision.Nodes > 1 {
		o.Limit = &c.shares(of.Decision.Nodes).terms[p.term]
	}
	if c.set.soft() == p.term {
		o.Soft, o.Grace = !c.over, c.over
	}
	o.Degraded, o.Err = of.Decision.Degraded, of.Err
	o.Outcome = *v.reported(p, &o.Outcome)
	return o
}

// reported returns the outcome at a place, in buf if it is not as the store has it.
func (v *Verdict) reported(p place, buf *sluice.Outcome) *sluice.Outcome {
	c, o := &v.charges[p.charge], &v.outcomes[p.outcome]
	if c.over && !o.Allowed && c.set.soft() == p.term {
		// The request passes again when either has room.
		soft := &v.extra(p.charge).soft
		*buf = *o
		buf.TooLarge, buf.RetryAfter = o.TooLarge && soft.TooLarge, min(o.RetryAfter, soft.RetryAfter)
		return buf
	}
	return o
}

// Binding returns the outcome of the limit that binds. It is not ok if there
// is none.
func (v *Verdict) Binding() (o Outcome, ok bool) {
	if !v.bound {
		return Outcome{}, false
	}
	return v.outcome(v.binding), true
}

// Warning is a soft limit that a request went over.
type Warning struct {
	Rule  *Rule
	Level *Level
	Soft  *sluice.Term   // the limit it went over
	Grace *sluice.Term   // the limit it drew on instead
	Left  sluice.Outcome // what the grace limit has to say
}

// Warnings returns the soft limits that the request went over. A request that
// is allowed with a warning should notify the client.
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
				w := Warning{Rule: &c.rule.Rule, Level: c.level.Level, Soft: c.set.take.Term(last), Grace: c.set.over.Term(last), Left: v.outcomes[at-1]}
				if !yield(w) {
					return
				}
			}
		}
	}
}

// Trial is the result of limits without effect: a shadow rule, or a candidate.
type Trial struct {
	Rule      *Rule
	Level     *Level     // of a candidate, or that a shadow rule's key is missing of; else nil
	Candidate *Candidate // nil for a shadow rule
	Shadow    bool
	Key       string // that is under the limit that binds
	Cost      int64  // units
	Allowed   bool
	Decision  sluice.Decision
	Limit     *sluice.Term // the one that binds
	Err       error        // why there is no result
}

// Trials returns what shadow rules and candidates would have done. A shadow rule
// counts as if it stood alone, and a candidate as if it stood in its level's
// place: neither knows what other rules have denied.
func (v *Verdict) Trials() iter.Seq[Trial] {
	return func(yield func(Trial) bool) {
		for _, s := range v.sideErrs {
			if !yield(s) {
				return
			}
		}
		for i := v.enforced; i < len(v.asks); i++ {
			k := &v.asks[i]
			c := &v.charges[k.first]
			s := Trial{Rule: &c.rule.Rule, Shadow: c.rule.Shadow, Allowed: k.result.Err == nil && k.result.Decision.Allowed, Decision: k.result.Decision, Err: k.result.Err}
			if k.role == candidacy {
				s.Level, s.Candidate = c.level.Level, c.candidate.Candidate
			}
			s.Key, s.Cost = c.Key, c.Cost
			if s.Err == nil {
				charge, term := v.limit(k, s.Decision.Binding)
				s.Key, s.Cost, s.Limit = charge.Key, charge.Cost, charge.Plan.Term(term)
			}
			if !yield(s) {
				return
			}
		}
	}
}

// limit returns where the i-th limit of an ask stands: in which charge, and which of
// its limits it is.
func (v *Verdict) limit(k *ask, i int) (c *sluice.Charge, term int) {
	for j := k.first; j < k.first+k.n; j++ {
		if c = &v.charges[j].Charge; i < c.Plan.Len() {
			return c, i
		}
		i -= c.Plan.Len()
	}
	return c, 0 // a store that counts otherwise
}

// failing returns the failure policy of all active rules that an ask is about.
func (v *Verdict) failing(k *ask) sluice.Failure {
	worst := sluice.FailOpen
	for j := k.first; j < k.first+k.n; j++ {
		worst = max(worst, v.charges[j].rule.Failure)
	}
	if v.joint && k.role == taken {
		worst = max(worst, v.holds[0].rule.Failure)
	}
	return worst
}

// binds finds the limit that binds and describes it in the decision.
func (v *Verdict) binds() {
	if k := &v.asks[0]; v.enforced == 1 && k.terms == 1 && v.needs&needsGrace == 0 && k.result.Err == nil { // the decision says all
		v.bound, v.binding, v.Decision.Binding = true, place{0, k.first, 0, k.outcomes}, 0
		return
	}
	i := 0
	var best, o share
	for a := range v.enforced {
		k := &v.asks[a]
		if k.result.Err != nil {
			i += k.terms
			continue
		}
		at := k.outcomes
		for j := k.first; j < k.first+k.n; j++ {
			o.cost = v.charges[j].Cost
			for t := range v.charges[j].Plan.Len() {
				o.Outcome = *v.reported(place{a, j, t, at}, &o.Outcome)
				if v.Allowed == o.Allowed && (!v.bound || tighter(&o, &best, v.Allowed)) {
					best, v.bound, v.Decision.Binding = o, true, i
					v.binding = place{a, j, t, at}
				}
				at++
				i++
			}
		}
	}
	v.Decision.TooLarge = best.TooLarge
	v.Decision.Remaining, v.Decision.RetryAfter, v.Decision.ResetAfter = best.Remaining, best.RetryAfter, best.ResetAfter
}

// share is an outcome, and the cost of which it is.
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

// undoTimeout is how long giving units back may take once nobody waits.
const undoTimeout = time.Second

func undoContext(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
}
