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

// Shortfall is the cost of leases: how much less than the limit may be admitted.
// Leases never admit more than the limit.
type Shortfall struct {
	// PerWindow is the number of units of a Window's Quota that are not granted because
	// units count for longer than a Window. It is 0 except for a sliding log or histogram.
	PerWindow int64
	// Burst is the number of units of an idle key's Burst that are not granted. It is 0
	// except for a bucket.
	Burst int64
	// Held is the most units that the nodes together may hold unused while others are
	// denied, and TTL is how long. The units of a node that died, or of a lost grant, are
	// lost for this lease, too.
	Held int64
	TTL  time.Duration

	limit sluice.Limit
	nodes int
}

// LeaseCost returns the largest shortfall of nodes that lease a plan under the terms, for
// each of its limits in the plan's order. The limits are leased together: with one TTL and
// one number of units that suit all of them. The error says why the plan cannot be leased,
// or which terms are not valid.
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
			// A node that has spent a unit holds at most the others. A node that
			// waited for its turn may hold all, while no other node wants them.
			s.Held = before.Full
			if given.Units <= s.Held/int64(nodes) {
				s.Held = given.Units * int64(nodes)
			}
		}
		s.Burst = before.Full - after.Full
		if longer := after.Micros - before.Micros; longer > 0 {
			s.PerWindow = share(before.Quota, longer, after.Micros)
		}
		all[i] = s
	}
	return all, nil
}

// String returns the shortfall in words: "never over; under by at most 31 of 1000 requests
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
