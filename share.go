// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
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
	if n == 1 || l.Algorithm == Block || l.Validate() != nil {
		return l
	}
	s := l
	s.Debt, s.InitialDeficit = l.Debt/n, 0
	s.NextWaits = l.NextWaits && s.Debt > 0
	switch {
	case l.Algorithm.bucket():
		shareBucket(&s, n)
	case l.Quota >= n || l.Calendar != NoCalendar:
		s.Quota = max(l.Quota/n, 1)
	default:
		window, _ := stretch(1, l.Quota, l.Window.Microseconds(), n)
		s = Limit{
			Name: l.Name, Algorithm: SlidingLog, Quota: 1, Unit: l.Unit, Window: window,
			Debt: min(s.Debt, bounds.MaxLogQuota-1), CountDenied: l.CountDenied,
		}
	}
	switch full := l.idleUnits(); {
	case l.InitialDeficit == 0 || s.Algorithm != l.Algorithm:
	case full < n:
		s.InitialDeficit = l.InitialDeficit / full
	default:
		s.InitialDeficit = s.idleUnits() - (full-l.InitialDeficit)/n
	}
	if s.Validate() != nil { // its refill takes a little too long
		s.Debt, s.NextWaits, s.InitialDeficit = 0, false, 0
		s.Burst, s.DelayAfter = min(s.Burst, 1), min(s.DelayAfter, 1)
	}
	return s
}

// shareBucket makes a bucket the share of one of n nodes, but for its Debt and
// InitialDeficit.
func shareBucket(l *Limit, n int64) {
	quota, burst := l.Quota, l.Burst
	l.Burst, l.DelayAfter = max(burst/n, 1), min(l.DelayAfter, max(l.DelayAfter/n, 1))
	l.Credit, l.CreditFor = 0, 0
	if l.Refill != Continuous {
		if l.Quota = quota / n; min(quota, burst) >= n && l.Validate() == nil {
			return
		}
		l.Refill, quota = Continuous, min(quota, burst) // no refill gives more than is missing
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
