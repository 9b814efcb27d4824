// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Share returns the limit under which [sluice.FailLocal] decides on one of several live
// nodes: the same units in a window that is as many times as long. A calendar
// window cannot be stretched, nor can one to more than [sluice.MaxWindow]: there
// each node has its part of the units, but at least one. Fewer than one node
// count as one, more than 65,536 as that. A limit that allows neither (its
// bucket would refill too slowly) stays as it is. So does a block: the shares deny
// more than the limits do, and a key is blocked only if as many denials would block it
// on a single node.
//
// The bound of the share, by algo.Bound, is what one node lets through of a key,
// and all nodes together let through as many times that. What the store admitted
// before it failed comes on top.
func Share(l sluice.Limit, nodes int) sluice.Limit {
	l = l.Filled()
	n := int64(clampNodes(nodes))
	if n == 1 || l.Algorithm == sluice.Block {
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
	if part.Debt = l.Debt / n; part.Debt == 0 {
		part.NextWaits = false // there is nothing to owe
	}
	part.InitialDeficit = l.InitialDeficit / n
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

func clampNodes(nodes int) int { return min(max(nodes, 1), bounds.MaxNodes) }
