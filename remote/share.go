// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"fmt"
	"math"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// MaxNodes is the largest number of nodes that a limit is shared among.
const MaxNodes = 1 << 16

// Share returns the limit under which [sluice.FailLocal] decides on one of several live
// nodes: the same units in a window that is as many times as long. A calendar
// window cannot be stretched, nor can one to more than [sluice.MaxWindow]: there
// each node has its part of the units, but at least one. Fewer than one node
// count as one, more than [MaxNodes] as that. A limit that allows neither (its
// bucket would refill too slowly) stays as it is; [Bound] takes that into account.
func Share(l sluice.Limit, nodes int) sluice.Limit {
	l = l.Filled()
	n := int64(clampNodes(nodes))
	if n == 1 {
		return l
	}
	if l.Calendar == sluice.NoCalendar && int64(l.Window) <= int64(sluice.MaxWindow)/n {
		stretched := l
		stretched.Window *= time.Duration(n)
		if stretched.Validate() == nil {
			return stretched
		}
	}
	part := l
	part.Quota = max(l.Quota/n, 1)
	part.Debt = l.Debt / n
	part.Withheld = l.Withheld / n
	if l.Burst > 0 {
		part.Burst = max(l.Burst/n, 1)
	}
	if l.DelayAfter > 0 {
		part.DelayAfter = max(l.DelayAfter/n, 1)
	}
	if part.Validate() == nil {
		return part
	}
	return l
}

func clampNodes(nodes int) int { return min(max(nodes, 1), MaxNodes) }

// Bound returns the most units of one key that [sluice.FailLocal] lets through in any span
// (t, t+d]: on one node, and over all nodes if each takes them for as many. What
// the store admitted before it failed comes on top. Bounds beyond 2^63−1 are that.
func Bound(l sluice.Limit, nodes int, d time.Duration) (node, fleet int64) {
	n := int64(clampNodes(nodes))
	node = algo.Bound(Share(l, nodes), d)
	if node > math.MaxInt64/n {
		return node, math.MaxInt64
	}
	return node, node * n
}

// Worst says in words what [sluice.FailLocal] lets through at worst: "on each of 8 nodes at
// most 200 requests in any 8 minutes; on all of them together at most 1600
// requests".
func Worst(l sluice.Limit, nodes int) string {
	share := Share(l, nodes)
	if n := clampNodes(nodes); n > 1 {
		_, fleet := Bound(l, nodes, share.Window)
		return fmt.Sprintf("on each of %d nodes %s; on all of them together at most %d %v", n, algo.Worst(share), fleet, share.Unit)
	}
	return algo.Worst(share)
}
