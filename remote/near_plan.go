// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"hash/maphash"
	"math"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// planInfo holds what near needs to know of a plan, computed once.
type planInfo struct {
	plan     *sluice.Plan // for the store: its limits are stricter if it is leased
	id       uint64       // identity of these limits
	scope    uint64       // a part of its keys' hash
	rule     rule
	deniable bool // a denial holds for later takes, too
	err      error

	leased       bool
	ttl          int64 // µs
	units        int64
	nodes        int64
	full         int64 // the largest cost that can fit
	unusedCounts bool  // unused units count until they expire, also after a refund late in their TTL
}

// infoOf returns the planInfo of a plan.
func (n *near) infoOf(plan *sluice.Plan) (*planInfo, error) {
	f, ok := n.plans.Of(&plan.Kept)
	if !ok {
		f = n.derive(plan)
		n.plans.Keep(&plan.Kept, f)
		if f.plan != plan {
			n.plans.Keep(&f.plan.Kept, f)
		}
	}
	return f, f.err
}

func (n *near) derive(plan *sluice.Plan) *planInfo {
	f := &planInfo{plan: plan, scope: maphash.Comparable(n.scopes, plan.ScopeID), deniable: true, unusedCounts: true, full: math.MaxInt64}
	if n.lease != nil {
		if terms, ok := n.lease(plan); ok {
			f.setLease(plan, terms)
		}
	}
	f.id = f.plan.ID
	f.rule = ruleOf(f.plan)
	for i := range f.plan.Len() {
		term := f.plan.Term(i)
		f.full = min(f.full, term.Full)
		f.unusedCounts = f.unusedCounts && (term.Kind == compiled.SlidingLog || term.Kind == compiled.SlidingHistogram)
		f.deniable = f.deniable && !term.CountDenied && term.Kind != compiled.Block && term.InitialDeficit == 0 && !term.PreFilled
	}
	return f
}

// setLease makes f the info of the leased plan. A plan that cannot be leased is a fault
// of the request, as no store could decide it.
func (f *planInfo) setLease(plan *sluice.Plan, terms sluice.LeaseTerms) {
	leased, terms, err := plan.Lease(terms)
	if err != nil {
		f.err = &sluice.RequestError{Field: "Plan", Problem: "cannot be leased: " + err.Error()}
		return
	}
	f.plan, f.leased = leased, true
	f.ttl, f.units, f.nodes = terms.TTL.Microseconds(), terms.Units, int64(terms.Nodes)
}

// changes reports whether g replaces a limit of f by another one.
func (f *planInfo) changes(g *planInfo) bool {
	for i := range f.plan.Len() {
		for j := range g.plan.Len() {
			if s, t := f.plan.Term(i), g.plan.Term(j); s.Series == t.Series && s.ID != t.ID {
				return true
			}
		}
	}
	return false
}

// usable returns for how many µs after the instant at, in µs, units may be spent that
// count from then on: the TTL, or less if a limit has an edge before its end, which cut
// reports. The outcomes are those of wait µs before at.
func (f *planInfo) usable(at, wait int64, outcomes []sluice.Outcome) (ttl int64, cut bool) {
	ttl = f.ttl
	for i := range outcomes {
		term, edge := f.plan.Term(i), int64(-1)
		reset := outcomes[i].ResetAfter.Microseconds() - wait
		switch {
		case term.Kind == compiled.FixedWindow:
			edge = reset
		case term.Kind == compiled.SlidingCounter:
			edge = term.Sub - at%term.Sub
		case term.Kind == compiled.TokenBucket && term.Refill != sluice.Continuous:
			edge = (reset-1)%term.Micros + 1
		}
		// Units that are spent within edge-1 µs after at are spent before the edge.
		if edge >= 0 && edge-1 <= ttl {
			ttl, cut = max(edge-1, 0), true
		}
	}
	return ttl, cut
}

// rememberable reports whether a denial of req may be remembered: only time and refunds
// can end it.
func (f *planInfo) rememberable(req *sluice.Request) bool {
	// The outcomes of limits that do not bind are kept of leased takes alone: only the
	// store knows what other nodes have spent of them since.
	return f.deniable && plainTake(req) && (req.Outcomes == nil || f.plan.Len() == 1)
}

// leasable reports whether units in hand can decide req.
func (f *planInfo) leasable(req *sluice.Request) bool {
	return f.leased && plainTake(req) && req.Slot == nil && req.Cost > 0 && req.Cost <= f.full
}

// plainTake reports whether req is a take of one key that does not wait.
func plainTake(req *sluice.Request) bool {
	return req.Op == sluice.OpTake && len(req.More) == 0 && req.MaxWait == 0
}
