// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	"github.com/sluicegate/sluice"
)

// unserved returns which share of its quota a sliding counter serves and a remedy, or "" if
// the share is large.
func unserved(l sluice.Limit) string {
	f := l.Filled()
	c, _ := f.Algorithm.(sluice.SlidingCounter)
	share := servedPercent(c, f.Quota)
	says := fmt.Sprintf("%v serves %d %% of its quota to a client that asks all the time", l, share)
	switch {
	case c.Conservative && share < 80:
		if n := moreSubWindows(f); n > 0 {
			c.SubWindows = n
			if f.WithAlgorithm(c).Validate() == nil {
				return fmt.Sprintf("%s; use sub-windows %d, which serve %d %%", says, n, servedPercent(c, f.Quota))
			}
		}
		return says + "; use sliding-histogram, which never admits more than the quota either"
	case c.Strict && share <= 90:
		return says + "; leave out strict, which serves all of it and admits at most one unit more in any window"
	default:
		return ""
	}
}

// servedPercent returns about what part of its quota a client gets that takes a
// unit whenever one fits. A conservative counter of n sub-windows gives the
// quota once in n+1 of them, a strict one no less, and all but a unit in each
// window. Any other limit gives all.
func servedPercent(c sluice.SlidingCounter, quota int64) int {
	if !c.Conservative && !c.Strict {
		return 100
	}
	n := float64(c.SubWindows)
	share := n / (n + 1)
	if c.Strict {
		share = max(share, float64(quota-1)/float64(quota))
	}
	return int(100*share + 0.5)
}

// moreSubWindows returns a number of sub-windows to recommend, or 0 if the window cannot be
// divided into many.
func moreSubWindows(f sluice.Limit) int {
	for _, n := range []int{60, 50, 30, 20, 10, 7, 6, 5} {
		if f.Window.Microseconds()%int64(n) == 0 {
			return n
		}
	}
	return 0
}
