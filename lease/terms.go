// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"math"

	"github.com/sluicegate/sluice"
)

// Drift bounds how much clocks may differ in rate: by one part in Drift.
// Clocks that are kept by NTP differ by half of that at most.
const Drift = 1000

// terms is a plan made ready for leasing.
type terms struct {
	plan     *sluice.Plan // what the store is given
	ttl      int64        // µs
	units    int64
	nodes    int64
	full     int64 // the largest cost that can fit
	deniable bool  // denials may be remembered
	returns  bool  // units that come back unused after a TTL still count
	err      error // why it cannot be leased
}

// derive returns the terms of plan, whose err says what is wrong with them.
func derive(plan *sluice.Plan, given sluice.LeaseTerms) *terms {
	if plan == nil {
		return &terms{err: errors.New("lease: plan is nil; make one with sluice.Compile")}
	}
	leased, given, err := plan.Lease(given)
	if err != nil {
		return &terms{err: fmt.Errorf("lease: scope %q: %w", plan.Scope(), err)}
	}
	t := &terms{
		plan: leased, ttl: given.TTL.Microseconds(), units: given.Units, nodes: int64(given.Nodes),
		full: math.MaxInt64, deniable: true, returns: true,
	}
	for i := range leased.Len() {
		term := leased.Term(i)
		t.full = min(t.full, term.Full())
		t.returns = t.returns && (term.Algorithm == sluice.SlidingLog || term.Algorithm == sluice.SlidingHistogram)
		t.deniable = t.deniable && term.Withheld == 0 && !term.PreFilled
	}
	return t
}

// usable returns for how long after instant at, in µs, units may be used that
// count from then on: the TTL, or up to the next edge of a limit, and whether
// that cut it. outcomes are what the limits had to say wait µs before.
func (t *terms) usable(at, wait int64, outcomes []sluice.Outcome) (ttl int64, cut bool) {
	ttl = t.ttl
	for i := range outcomes {
		term, edge := t.plan.Term(i), int64(-1)
		reset := outcomes[i].ResetAfter.Microseconds() - wait
		switch {
		case term.Algorithm == sluice.FixedWindow:
			edge = reset
		case term.Algorithm == sluice.SlidingCounter:
			edge = term.Sub - at%term.Sub
		case term.Algorithm == sluice.TokenBucket && term.Refill == sluice.Interval:
			edge = (reset-1)%term.Micros + 1
		}
		// A use less than so long after at, in whole µs, is before the edge.
		if edge >= 0 && edge-1 <= ttl {
			ttl, cut = max(edge-1, 0), true
		}
	}
	return ttl, cut
}
