// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"math/bits"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/internal/bounds"
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
		(len(ma.Descriptor) == 0 || len(ma.Descriptor) == len(mb.Descriptor) && asks(ma.Descriptor, mb.Descriptor)) &&
		!slices.ContainsFunc(ma.ExceptDescriptor, func(a policy.Field) bool { return !excepts(mb, a) }) &&
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
	return !slices.ContainsFunc(wide, func(w policy.Field) bool {
		return !slices.ContainsFunc(narrow, func(n policy.Field) bool {
			return strings.EqualFold(n.Name, w.Name) && n.Absent == w.Absent && (len(w.Values) == 0 || subset(n.Values, w.Values))
		})
	})
}

// excepts reports whether a match excepts all descriptors with an entry.
func excepts(m *policy.Match, entry policy.Field) bool {
	return slices.ContainsFunc(m.ExceptDescriptor, func(f policy.Field) bool {
		return f.Name == entry.Name && subset(entry.Values, f.Values)
	})
}

func allWithin(networks, in []netip.Prefix) bool {
	return !slices.ContainsFunc(networks, func(n netip.Prefix) bool {
		return !slices.ContainsFunc(in, func(p netip.Prefix) bool { return p.Bits() <= n.Bits() && p.Contains(n.Addr()) })
	})
}

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

// servedPercent returns roughly the share of its quota that a client gets if it takes a unit
// whenever one fits. A conservative counter of n sub-windows gives the quota once in n+1 of
// them. A strict one gives no less than that, and no less than all but one unit in each
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

// crossing returns the limits of one name in several sets, tiers and overrides included, that
// admit more in turn than each alone: a key may move from one set to another. For buckets,
// which share a balance, that is so if neither contains the other; for windows, if their
// lengths differ.
func crossing(sets [][]policy.Limit) (texts []string) {
	var names []string
	versions := make(map[string][]sluice.Limit)
	for _, set := range sets {
		for _, l := range set {
			f := l.Limit.Filled()
			if versions[f.Name] == nil {
				names = append(names, f.Name)
			}
			if !slices.Contains(versions[f.Name], f) {
				versions[f.Name] = append(versions[f.Name], f)
			}
		}
	}
	for _, name := range names {
		all := versions[name]
		longest := slices.MaxFunc(all, func(a, b sluice.Limit) int { return int(a.Window - b.Window) }).Window
		most := int64(0)
		for _, l := range all {
			most = max(most, algo.Bound(l, longest))
		}
		if n := algo.Bound(all[0], longest, all[1:]...); n > most {
			texts = append(texts, fmt.Sprintf("a key that changes between the limits named %q, by a tier or an override, may pass up to %s within %s, more than any of them allows; use limits of which one contains the others, or names of their own",
				name, amount.Of(n, all[0].Unit == sluice.Bytes), amount.Lasting(longest)))
		}
	}
	return texts
}

var requestCount = regexp.MustCompile(`\b[0-9]+ requests?\b`)

// inUnits replaces requests by the units of c in a description of a limit.
func inUnits(c policy.Cost, text string) string {
	unit := "unit"
	switch {
	case c.Of == policy.RequestBytes, c.Of == policy.ResponseBytes, c.Of == policy.Fixed && c.Units <= 1:
		return text
	case c.Of == policy.Milliseconds:
		unit = "millisecond"
	}
	return requestCount.ReplaceAllStringFunc(text, func(found string) string {
		digits, _, _ := strings.Cut(found, " ")
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
			return found
		case c.Of == policy.Fixed:
			return fmt.Sprintf("%s (%s)", count(n, unit), count(n/c.Units, "request"))
		}
		return count(n, unit)
	})
}

// served returns l without the rest of its quota that is less than the fixed cost of a
// request, and so never used.
func served(c policy.Cost, l sluice.Limit) sluice.Limit {
	whole := l
	whole.Quota -= l.Quota % max(c.Units, 1)
	if c.Of != policy.Fixed || !counts(l) || l.Debt > 0 || whole.Validate() != nil {
		return l
	}
	return whole
}

// counts reports whether a limit counts whole units, and gives none back before they are a
// window old or their window ends.
func counts(l sluice.Limit) bool {
	_, sliding := l.Algorithm.(sluice.SlidingCounter)
	return l.Filled().Burst == 0 && !sliding
}

// tooLate warns of a rule that may delay a request for longer than the longest request of its
// upstream: the request would never be sent.
func tooLate(c *config.Config, i int) []string {
	r, example := &c.Policy.Rules()[i], c.Policy.Example(i)
	at := slices.IndexFunc(c.Upstreams, func(u config.Upstream) bool { return u.Takes(example.Host, example.Path) })
	if at < 0 || c.Upstreams[at].LongestRequest == 0 || r.MaxWait < c.Upstreams[at].LongestRequest {
		return nil
	}
	return []string{fmt.Sprintf("a request delayed by max_wait, %v, is not sent any more: the delay counts towards its upstream's longest_request of %v; use a shorter max_wait",
		r.MaxWait, c.Upstreams[at].LongestRequest)}
}

// longForAll is the longest ttl accepted for a slot shared by all clients.
const longForAll = time.Minute

// occupied warns of limits in flight that one client can use up for all by requests that it
// breaks off: their end is unknown.
func occupied(r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		l := &r.Levels[i]
		if l.InFlight == nil || len(l.By) > 0 || r.Shadow {
			continue
		}
		if ttl := cmp.Or(l.InFlight.TTL, bounds.DefaultLease); ttl > longForAll {
			texts = append(texts, fmt.Sprintf("in_flight is one for all, and a client that breaks off an upload has taken a slot of it for %v; use a ttl near the longest request, %v at most, or by: ip",
				ttl, longForAll))
		}
	}
	return texts
}
