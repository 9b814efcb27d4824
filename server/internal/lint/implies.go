// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/policy"
)

// implies reports whether loose can never deny a request that tight has allowed if both are
// charged for the same requests and nothing else. It errs to false.
func implies(tight, loose sluice.Limit, maxWait time.Duration) bool {
	t, l := tight.Filled(), loose.Filled()
	if t.Unit != l.Unit || l.CountDenied {
		return false // it may deny for what others do
	}
	within := func(d time.Duration) int64 { return algo.Bound(t, d) }
	window := l.Window
	switch a := l.Algorithm.(type) {
	case sluice.TokenBucket:
		return a.Refill == sluice.Continuous && a.InitialDeficit == 0 && a.WarmUp == 0 && bucketHolds(t, l.Burst, l.Quota, l.Window)
	case sluice.LeakyBucket:
		if _, leaky := t.Algorithm.(sluice.LeakyBucket); maxWait > 0 || !leaky && a.DelayAfter < l.Burst {
			return false // a queue delays, which is an effect, too
		}
		return bucketHolds(t, l.Burst, l.Quota, l.Window)
	case sluice.FixedWindow:
		if a.Calendar != sluice.NoCalendar {
			window += 4 * time.Hour // a change of clocks makes one longer
		}
		return a.InitialDeficit == 0 && within(window) <= l.Quota
	case sluice.SlidingLog:
		return within(window) <= l.Quota
	case sluice.SlidingCounter:
		// It may count all of the last two windows or, in parts, one part more.
		part := window / time.Duration(a.SubWindows)
		return !a.PreFilled && within(window+part) <= l.Quota
	case sluice.SlidingHistogram:
		k := int64(a.Precision)
		if l.Quota <= k {
			return within(window) <= l.Quota // exact
		}
		return within(window) <= (l.Quota-t.Full())/(k-1)*(k-2)
	default:
		return false
	}
}

// bucketHolds reports whether a bucket never denies requests that t allows: t allows in any
// span at most the bucket's burst and refill.
func bucketHolds(t sluice.Limit, burst, quota int64, window time.Duration) bool {
	once, perWindow := t.Quota, t.Quota // at one instant, and for every window that follows
	switch a := t.Algorithm.(type) {
	case sluice.TokenBucket:
		once = t.Burst
		if a.Refill != sluice.Continuous {
			once += t.Quota
		}
	case sluice.LeakyBucket:
		once = t.Burst
	case sluice.FixedWindow:
		if a.Calendar != sluice.NoCalendar {
			return false
		}
		once *= 2
	case sluice.SlidingCounter:
		if !a.Conservative {
			once, perWindow = 4*t.Quota, 2*t.Quota
		}
	default: // never more than the quota in any window
	}
	if t.Quota > sluice.MaxQuota/4 || once > burst || t.Debt > 0 {
		return false
	}
	// perWindow / t.Window <= quota / window
	ahi, alo := bits.Mul64(uint64(perWindow), uint64(window))
	bhi, blo := bits.Mul64(uint64(quota), uint64(t.Window))
	return ahi < bhi || ahi == bhi && alo <= blo
}

// wider reports whether rule a charges the same key at least whenever b does, and at least as
// much. It errs to false.
func wider(a, b *policy.Rule) bool {
	if a.Shadow || a.When != nil || len(a.Levels) != 1 || len(b.Levels) != 1 || a.Cost != b.Cost {
		return false
	}
	la, lb := &a.Levels[0], &b.Levels[0]
	if !slices.Equal(la.By, lb.By) || la.Missing != lb.Missing || la.Tiers != nil || len(la.Overrides) > 0 || len(la.ExemptKeys) > 0 ||
		lb.Tiers != nil || len(lb.Overrides) > 0 {
		return false
	}
	return matchesAll(a, b)
}

// matchesAll reports whether rule a matches all requests that b matches. It errs to false.
func matchesAll(a, b *policy.Rule) bool {
	ma, mb := &a.Match, &b.Match
	return len(ma.Except) == 0 && subset(mb.Methods, ma.Methods) && subset(mb.Hosts, ma.Hosts) && (slices.Contains(ma.Paths, "/") || subset(mb.Paths, ma.Paths)) &&
		asks(ma.Headers, mb.Headers) && asks(ma.Queries, mb.Queries) &&
		(len(ma.Networks) == 0 || len(mb.Networks) > 0 && allWithin(mb.Networks, ma.Networks)) &&
		allWithin(a.ExemptNetworks, b.ExemptNetworks)
}

// subset reports whether wide matches all that narrow matches; an empty list matches
// everything.
func subset(narrow, wide []string) bool {
	if len(wide) == 0 {
		return true
	}
	return len(narrow) > 0 && !slices.ContainsFunc(narrow, func(s string) bool { return !slices.Contains(wide, s) })
}

// asks reports whether every request that satisfies narrow satisfies wide.
func asks(wide, narrow []policy.Field) bool {
	for _, w := range wide {
		if !slices.ContainsFunc(narrow, func(n policy.Field) bool {
			return strings.EqualFold(n.Name, w.Name) && n.Absent == w.Absent && (len(w.Values) == 0 || subset(n.Values, w.Values))
		}) {
			return false
		}
	}
	return true
}

func allWithin(networks, in []netip.Prefix) bool {
	for _, n := range networks {
		if !slices.ContainsFunc(in, func(p netip.Prefix) bool { return p.Bits() <= n.Bits() && p.Contains(n.Addr()) }) {
			return false
		}
	}
	return true
}
