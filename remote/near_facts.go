// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"hash/maphash"
	"math"

	"github.com/sluicegate/sluice"
)

// facts are what follows from a plan, worked out once.
type facts struct {
	plan     *sluice.Plan // what the store is given: its limits are stricter if it is leased
	id       uint64       // of these limits
	scope    uint64       // a part of the hash of its keys
	rule     rule
	deniable bool // a denial says something about the takes to come
	err      error

	leased  bool
	ttl     int64 // µs
	units   int64
	nodes   int64
	full    int64 // the largest cost that can fit
	returns bool  // units that come back unused after a TTL still count
}

// of returns the facts of a plan.
func (n *near) of(plan *sluice.Plan) (*facts, error) {
	f, ok := n.plans.Of(plan.Compiled())
	if !ok {
		f = n.derive(plan)
		n.plans.Keep(plan.Compiled(), f)
		if f.plan != plan {
			n.plans.Keep(f.plan.Compiled(), f)
		}
	}
	return f, f.err
}

func (n *near) derive(plan *sluice.Plan) *facts {
	f := &facts{plan: plan, scope: maphash.Comparable(n.scopes, plan.ScopeID()), deniable: true, returns: true, full: math.MaxInt64}
	if n.lease != nil {
		if terms, ok := n.lease(plan); ok {
			f.lease(plan, terms)
		}
	}
	f.id = f.plan.ID()
	f.rule = ruleOf(f.plan)
	for i := range f.plan.Len() {
		term := f.plan.Term(i)
		f.full = min(f.full, term.Full())
		f.returns = f.returns && (term.Algorithm == sluice.SlidingLog || term.Algorithm == sluice.SlidingHistogram)
		f.deniable = f.deniable && !term.CountDenied && term.Algorithm != sluice.Block && term.InitialDeficit == 0 && !term.PreFilled
	}
	return f
}

// lease makes f those of a leased plan. That a plan cannot be leased is an error of
// the request: no store could decide it.
func (f *facts) lease(plan *sluice.Plan, terms sluice.LeaseTerms) {
	leased, terms, err := plan.Lease(terms)
	if err != nil {
		f.err = &sluice.RequestError{Field: "Plan", Problem: "cannot be leased: " + err.Error()}
		return
	}
	f.plan, f.leased = leased, true
	f.ttl, f.units, f.nodes = terms.TTL.Microseconds(), terms.Units, int64(terms.Nodes)
}

// changes reports whether a limit of f has another of g's in its place.
func (f *facts) changes(g *facts) bool {
	for i := range f.plan.Len() {
		for j := range g.plan.Len() {
			if s, t := f.plan.Term(i), g.plan.Term(j); s.Series == t.Series && s.ID != t.ID {
				return true
			}
		}
	}
	return false
}

// usable returns for how long after instant at, in µs, units may be used that
// count from then on: the TTL, or up to the next edge of a limit, and whether
// that cut it. outcomes are what the limits had to say wait µs before.
func (f *facts) usable(at, wait int64, outcomes []sluice.Outcome) (ttl int64, cut bool) {
	ttl = f.ttl
	for i := range outcomes {
		term, edge := f.plan.Term(i), int64(-1)
		reset := outcomes[i].ResetAfter.Microseconds() - wait
		switch {
		case term.Algorithm == sluice.FixedWindow:
			edge = reset
		case term.Algorithm == sluice.SlidingCounter:
			edge = term.Sub - at%term.Sub
		case term.Algorithm == sluice.TokenBucket && term.Refill != sluice.Continuous:
			edge = (reset-1)%term.Micros + 1
		}
		// A use less than so long after at, in whole µs, is before the edge.
		if edge >= 0 && edge-1 <= ttl {
			ttl, cut = max(edge-1, 0), true
		}
	}
	return ttl, cut
}

// plain reports whether a denial of req may be remembered: nothing but the
// passing of time, or giving units back, can change it.
func (f *facts) plain(req *sluice.Request) bool {
	// What several limits that do not bind have to say is kept of leased takes
	// alone: only the store knows what others have spent of them since.
	return f.deniable && plainTake(req) && (req.Outcomes == nil || f.plan.Len() == 1)
}

// leases reports whether req is one that units in hand can answer.
func (f *facts) leases(req *sluice.Request) bool {
	return f.leased && plainTake(req) && req.Slot == nil && req.Cost > 0 && req.Cost <= f.full
}

// plainTake reports whether req is a take of one key, now.
func plainTake(req *sluice.Request) bool {
	return req.Op == sluice.OpTake && len(req.More) == 0 && req.MaxWait == 0
}
