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
	pi, ok := n.plans.Of(&plan.Kept)
	if !ok {
		pi = n.derive(plan)
		n.plans.Keep(&plan.Kept, pi)
		if pi.plan != plan {
			n.plans.Keep(&pi.plan.Kept, pi)
		}
	}
	return pi, pi.err
}

func (n *near) derive(plan *sluice.Plan) *planInfo {
	pi := &planInfo{plan: plan, scope: maphash.Comparable(n.scopes, plan.ScopeID), deniable: true, unusedCounts: true, full: math.MaxInt64}
	if n.lease != nil {
		if terms, ok := n.lease(plan); ok {
			pi.setLease(plan, terms)
		}
	}
	pi.id = pi.plan.ID
	pi.rule = ruleOf(pi.plan)
	for i := range pi.plan.Len() {
		term := pi.plan.Term(i)
		pi.full = min(pi.full, term.Full)
		pi.unusedCounts = pi.unusedCounts && (term.Kind == compiled.SlidingLog || term.Kind == compiled.SlidingHistogram)
		pi.deniable = pi.deniable && !term.CountDenied && term.Kind != compiled.Block && term.InitialDeficit == 0 && !term.PreFilled
	}
	return pi
}

// setLease makes pi the info of the leased plan. A plan that cannot be leased is a fault
// of the request, as no store could decide it.
func (pi *planInfo) setLease(plan *sluice.Plan, terms sluice.LeaseTerms) {
	leased, terms, err := plan.Lease(terms)
	if err != nil {
		pi.err = &sluice.RequestError{Field: "Plan", Problem: "cannot be leased: " + err.Error()}
		return
	}
	pi.plan, pi.leased = leased, true
	pi.ttl, pi.units, pi.nodes = terms.TTL.Microseconds(), terms.Units, int64(terms.Nodes)
}

// changes reports whether g replaces a limit of pi by another one.
func (pi *planInfo) changes(g *planInfo) bool {
	for i := range pi.plan.Len() {
		for j := range g.plan.Len() {
			if s, t := pi.plan.Term(i), g.plan.Term(j); s.Series == t.Series && s.ID != t.ID {
				return true
			}
		}
	}
	return false
}

// usable returns for how many µs after the instant at, in µs, units may be spent that
// count from then on: the TTL, or less if a limit has an edge before its end, which cut
// reports. The outcomes are those of wait µs before at.
func (pi *planInfo) usable(at, wait int64, outcomes []sluice.Outcome) (ttl int64, cut bool) {
	ttl = pi.ttl
	for i := range outcomes {
		term, edge := pi.plan.Term(i), int64(-1)
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
func (pi *planInfo) rememberable(req *sluice.Request) bool {
	// The outcomes of limits that do not bind are kept of leased takes alone: only the
	// store knows what other nodes have spent of them since.
	return pi.deniable && plainTake(req) && (req.Outcomes == nil || pi.plan.Len() == 1)
}

// leasable reports whether units in hand can decide req.
func (pi *planInfo) leasable(req *sluice.Request) bool {
	return pi.leased && plainTake(req) && req.Slot == nil && req.Cost > 0 && req.Cost <= pi.full
}

// plainTake reports whether req is a take of one key that does not wait, and opens no hold: a
// hold that is open already is allowed whatever is left.
func plainTake(req *sluice.Request) bool {
	return req.Op == sluice.OpTake && len(req.More) == 0 && req.MaxWait == 0 && req.Hold == nil
}
