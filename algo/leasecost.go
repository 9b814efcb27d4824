// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"fmt"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// Shortfall is what leases cost: how much less than the limit may be admitted.
// More than the limit, never.
type Shortfall struct {
	// PerWindow is how many units of a Window's Quota are not granted because
	// units count for longer than a Window. Sliding log and histogram.
	PerWindow int64
	// Burst is how many units of an idle key's Burst are not granted. Buckets.
	Burst int64
	// Held is how many units the nodes together may have in hand that none of
	// them uses while others are denied, and TTL for how long. Units of a node
	// that died, or whose grant was lost, are gone for this lease as well.
	Held int64
	TTL  time.Duration

	limit sluice.Limit
	nodes int
}

// LeaseCost returns the most by which nodes that lease a plan under the terms fall
// short of each of its limits, in its order, or why they cannot lease it. The
// limits are leased together: for the TTL, and in the units, that suit all of them.
// It fails for terms that cannot be.
func LeaseCost(plan *sluice.Plan, given sluice.LeaseTerms, nodes int) ([]Shortfall, error) {
	if nodes < 1 || nodes > 1<<20 {
		return nil, fmt.Errorf("algo: %d nodes; must be 1 to %d", nodes, 1<<20)
	}
	leased, given, err := plan.Lease(given)
	if err != nil {
		return nil, err
	}
	all := make([]Shortfall, plan.Len())
	for i := range all {
		before, after := plan.Term(i), leased.Term(i)
		s := Shortfall{TTL: given.TTL, limit: before.Limit, nodes: nodes}
		if given.Units > 1 {
			// A node that has spent one has at most the others; one that waited
			// for its turn may have all, and no node that wants them.
			s.Held = before.Full()
			if given.Units <= s.Held/int64(nodes) {
				s.Held = given.Units * int64(nodes)
			}
		}
		s.Burst = before.Full() - after.Full()
		if longer := after.Micros - before.Micros; longer > 0 {
			s.PerWindow = share(before.Quota, longer, after.Micros)
		}
		all[i] = s
	}
	return all, nil
}

// String says it in words: "never over; under by at most 31 of 1000 requests
// per 1s, and by the up to 72 that 8 nodes hold for up to 31.25ms".
func (s Shortfall) String() string {
	var b strings.Builder
	b.WriteString("never over; under by at most ")
	switch {
	case s.PerWindow > 0:
		fmt.Fprintf(&b, "%d of %d %v per %v, and by ", s.PerWindow, s.limit.Quota, s.limit.Unit, s.limit.Window)
	case s.Burst > 0:
		fmt.Fprintf(&b, "%d of a burst of %d %v, and by ", s.Burst, s.limit.Full(), s.limit.Unit)
	}
	fmt.Fprintf(&b, "the up to %d that %d nodes hold for up to %v", s.Held, s.nodes, s.TTL)
	return b.String()
}

// share returns n·part/whole, rounded up.
func share(n, part, whole int64) int64 {
	q, rem := span.MulDiv(n, part, whole)
	if rem > 0 {
		q++
	}
	return q
}
