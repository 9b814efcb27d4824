// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// Share returns the limit under which [FailLocal] decides on one of several nodes. All
// nodes together admit of a key, in any window, at most what l does, and at most one
// unit a node more where the Quota or Burst is below the number of nodes N. At once
// they admit at most the larger of N and what l does; of a calendar both hold for each
// of its windows. Fewer nodes than one count as one, more than 65,536 as that.
//
//	of                          share
//	bucket, continuous refill   Quota per N windows, Burst/N, at least 1; a window longer than
//	                            MaxWindow is shortened, and its Quota with it
//	  interval, aligned refill  Quota/N per window, Burst/N; where Quota or Burst is below N,
//	                            the smaller of them per N windows, refilled continuously
//	  leaky bucket              DelayAfter/N, at least 1, too
//	  warm-up                   the same length
//	window, log, counter,       Quota/N per window, with the same options; where the Quota is
//	histogram                   below N, a sliding log of 1 per ⌈N windows/Quota⌉
//	calendar                    Quota/N, at least 1, per window of the calendar
//	debt                        Debt/N; without any the next does not wait
//	initial deficit             the share of a node has 1/N of what l has at the start
//	credit                      none: an add does not reach a node
//	count-denied, pre-filled    the same
//	block                       the limit itself: nodes deny more often, and a key is blocked
//	                            only if as many denials would block it on a single node
//
// Divisions round down. A share can never hold a cost that is above it, though l may.
func (l Limit) Share(nodes int) Limit {
	l = l.Filled()
	n := int64(min(max(nodes, 1), bounds.MaxNodes))
	o, _ := optionsOf(l.Algorithm)
	if n == 1 || o.Kind == compiled.Block || l.Validate() != nil {
		return l
	}
	s, deficit := l, o.InitialDeficit
	s.Debt, o.InitialDeficit = l.Debt/n, 0
	o.NextWaits = o.NextWaits && s.Debt > 0
	switch {
	case o.Kind.Bucket():
		shareBucket(&s, &o, n)
	case l.Quota >= n || o.Calendar != NoCalendar:
		s.Quota = max(l.Quota/n, 1)
	default:
		deficit, o = 0, options{Kind: compiled.SlidingLog}
		s.Quota, s.Debt = 1, min(s.Debt, bounds.MaxLogQuota-1)
		s.Window, _ = stretch(1, l.Quota, l.Window.Microseconds(), n)
	}
	switch full := l.idleUnits(); {
	case deficit == 0:
	case full < n:
		o.InitialDeficit = deficit / full
	default:
		o.InitialDeficit = s.idleUnits() - (full-deficit)/n
	}
	if s = s.as(&o); s.Validate() != nil { // its refill takes a little too long
		o.NextWaits, o.InitialDeficit, o.DelayAfter = false, 0, min(o.DelayAfter, 1)
		s.Debt, s.Burst = 0, min(s.Burst, 1)
	}
	return s.as(&o)
}

// as returns l counted by the algorithm of o, filled in.
func (l Limit) as(o *options) Limit {
	l.Algorithm = o.assemble()
	return l.Filled()
}

// shareBucket makes a bucket with options o the share of one of n nodes, but for its Debt
// and InitialDeficit.
func shareBucket(l *Limit, o *options, n int64) {
	quota, burst := l.Quota, l.Burst
	l.Burst, o.DelayAfter = max(burst/n, 1), min(o.DelayAfter, max(o.DelayAfter/n, 1))
	o.Credit, o.CreditFor = 0, 0
	if o.Refill != Continuous {
		if l.Quota = quota / n; min(quota, burst) >= n && l.as(o).Validate() == nil {
			return
		}
		o.Refill, quota = Continuous, min(quota, burst) // no refill gives more than is missing
	}
	l.Window, l.Quota = stretch(quota, quota, l.Window.Microseconds(), n)
}

// stretch returns the window of µs in which units come back to a node of n, where quota
// do to all in a window. Where it would be longer than MaxWindow it has fewer units.
func stretch(units, quota, window, n int64) (time.Duration, int64) {
	const most = int64(MaxWindow / time.Microsecond)
	if window*n > most {
		fit, _ := span.MulDiv(most, quota, window*n)
		units = min(units, max(fit, 1))
	}
	long, rest := span.MulDiv(units, window*n, quota)
	if rest > 0 {
		long++
	}
	return time.Duration(min(long, most)) * time.Microsecond, units
}
