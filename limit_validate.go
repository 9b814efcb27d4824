// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/span"
)

// LimitError is one fault of a [Limit].
type LimitError struct {
	Field   string // the field of Limit or of its Algorithm, as in Go
	Problem string // the fault, and the value to use instead
}

// Error returns the fault with its field.
func (e *LimitError) Error() string { return "sluice: limit: " + e.Field + ": " + e.Problem }

// Validate returns nil, or every fault of l joined, each a [*LimitError]. The decisions of a
// valid limit are exact. Validate loads the calendar's time zone.
func (l Limit) Validate() error {
	var faults []error
	refuse := refuser(func(bad bool, field, format string, args ...any) {
		if bad {
			faults = append(faults, &LimitError{Field: field, Problem: fmt.Sprintf(format, args...)})
		}
	})
	refuse(l.Name != "" && !bounds.ValidName(l.Name), "Name", "%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", l.Name)
	refuse(l.Unit >= units, "Unit", "%v is neither Requests nor Bytes", l.Unit)
	refuse(!isUnits(l.Quota), "Quota", "%d must be 1 to %d units", l.Quota, int64(MaxQuota))
	if l.Debt == NoDebt {
		l.Debt = 0
	}
	refuse(l.Debt < 0 || l.Debt > MaxQuota, "Debt", "%d must be 0 to %d units", l.Debt, int64(MaxQuota))
	full := max(l.Quota, l.Burst)
	refuse(full <= MaxQuota && l.Debt <= MaxQuota && l.Debt > MaxQuota-full, "Debt", "%d and the quota or burst of %d are more than %d units together; use a debt of %d at most", l.Debt, full, int64(MaxQuota), MaxQuota-full)
	if w, _ := l.Algorithm.(FixedWindow); w.Calendar == NoCalendar {
		refuse.length("Window", l.Window, MaxWindow, "")
	}
	o, ok := optionsOf(l.Algorithm)
	refuse(l.Burst != 0 && ok && !o.Kind.Bucket(), "Burst", "%v has none: an idle key may spend its quota; leave Burst zero or choose a bucket", o.Kind)
	switch a := l.Algorithm.(type) {
	case nil:
		l.validateToken(TokenBucket{}, refuse)
	case TokenBucket:
		l.validateToken(a, refuse)
	case LeakyBucket:
		l.validateBucket(Continuous, refuse)
		burst := l.burst()
		refuse(a.DelayAfter < 0 || a.DelayAfter > MaxQuota || isUnits(burst) && a.DelayAfter > burst, "DelayAfter", "%d must be 1 to the burst of %d, or 0 for 1", a.DelayAfter, burst)
	case FixedWindow:
		l.validateFixed(a, refuse)
	case SlidingLog:
		refuse(l.Quota >= 1 && l.Debt >= 0 && (l.Quota > bounds.MaxLogQuota || l.Debt > bounds.MaxLogQuota-l.Quota),
			"Quota", "a sliding log keeps an entry per unit, at most %d with the debt; use sliding-histogram, which never admits more either", bounds.MaxLogQuota)
	case SlidingCounter:
		l.validateCounter(a, refuse)
	case SlidingHistogram:
		refuse(a.Precision != 0 && (a.Precision < 3 || a.Precision > 1024), "Precision", "%d must be 3 to 1024, or 0 for %d", a.Precision, bounds.DefaultPrecision)
	case Block:
		l.validateBlock(a, refuse)
	default:
		refuse(true, "Algorithm", "%T is not one of the algorithms; use one as a value, such as SlidingLog{}", a)
	}
	return errors.Join(faults...)
}

// refuser records a fault of a field if bad is true.
type refuser func(bad bool, field, format string, args ...any)

// length refuses a length of time that is not whole µs from 1 µs to most; or ends the
// error and names the alternative.
func (refuse refuser) length(field string, d, most time.Duration, or string) {
	refuse(d < time.Microsecond || d > most, field, "%v must be 1µs to %v%s", d, most, or)
	refuse(d%time.Microsecond != 0, field, "%v is not a whole number of microseconds", d)
}

func isUnits(n int64) bool { return 1 <= n && n <= MaxQuota }

// validateBucket refuses a burst that is out of bounds or takes too long to refill.
func (l Limit) validateBucket(refill Refill, refuse refuser) {
	refuse(l.Burst < 0 || l.Burst > MaxQuota, "Burst", "%d must be 1 to %d units, or 0 for the default", l.Burst, int64(MaxQuota))
	refuse(l.computable() && !l.refills(refill, l.burst()+l.Debt),
		"Burst", "burst %d plus debt %d take longer than %v to refill; raise the quota or lower them", l.burst(), l.Debt, bounds.MaxRefill)
}

// computable reports whether the numbers of a bucket are within their bounds.
func (l Limit) computable() bool {
	return isUnits(l.burst()) && isUnits(l.Quota) && l.Debt >= 0 && l.Debt <= MaxQuota && l.Window >= time.Microsecond && l.Window <= MaxWindow
}

// refills reports whether n units refill within [bounds.MaxRefill].
func (l Limit) refills(refill Refill, n int64) bool {
	r := span.New(l.Quota, l.Window.Microseconds())
	if refill != Continuous {
		r, n = span.New(1, l.Window.Microseconds()), (n-1)/l.Quota+1 // windows
	}
	return r.Fits(n, bounds.MaxRefill.Microseconds())
}

func (l Limit) validateToken(b TokenBucket, refuse refuser) {
	l.validateBucket(b.Refill, refuse)
	refuse(l.CountDenied && (b.NextWaits || b.Refill == Aligned),
		"CountDenied", "does not go with next-waits, under which the next take waits in any case, nor with aligned-refill, whose units come back with the clock; leave it out")
	refuse(b.Refill >= refills, "Refill", "%d is none of Continuous, Interval and Aligned", b.Refill)
	burst := l.burst() // an invalid quota makes it invalid too
	refuse(b.InitialDeficit < 0 || b.InitialDeficit > MaxQuota || isUnits(burst) && b.InitialDeficit > burst, "InitialDeficit", "%d must be 0 to the burst of %d", b.InitialDeficit, burst)
	refuse(b.NextWaits && l.Debt == 0, "NextWaits", "needs a Debt, which is how far above the burst a take may go; use one, such as debt %d", max(burst, 1))
	if b.WarmUp != 0 {
		l.validateWarmUp(b, refuse)
	}
	l.validateCredit(b, refuse)
}

// validateWarmUp refuses a bad warm-up of a token bucket, and the options that exclude one.
func (l Limit) validateWarmUp(b TokenBucket, refuse refuser) {
	refuse.length("WarmUp", b.WarmUp, bounds.MaxWarmUp, ", or 0 for none")
	refuse(b.Refill != Continuous, "Refill", "a warm-up needs continuous refill; leave out the warm-up, or interval-refill and aligned-refill")
	refuse(b.InitialDeficit != 0, "InitialDeficit", "a rule with a warm-up starts with cold keys, not with empty ones; leave out the warm-up or initial")
	refuse(l.CountDenied, "CountDenied", "would keep a key warm that gets nothing; leave out the warm-up or count-denied")
}

// validateCredit refuses bad credit, and the options that exclude it. Credit lies above a
// full bucket. So it must be known at every instant, and depend only on the units that takes
// spend, when the bucket is full.
func (l Limit) validateCredit(b TokenBucket, refuse refuser) {
	refuse(b.Credit < 0 || b.Credit > MaxQuota, "Credit", "%d must be 0 to %d units", b.Credit, int64(MaxQuota))
	if b.Credit == 0 {
		refuse(b.CreditFor != 0, "CreditFor", "%v is how long credit lasts, but the limit has no Credit; use one, such as credit 50, or leave it out", b.CreditFor)
		return
	}
	refuse.length("CreditFor", b.CreditFor, MaxWindow, ": how long credit lasts, such as in 100/min credit 50 credit-for 24h")
	full := l.burst() + l.Debt
	refuse(isUnits(b.Credit) && b.Refill == Continuous && l.computable() && (b.Credit > MaxQuota-full || !l.refills(Continuous, full+b.Credit)),
		"Credit", "burst %d, debt %d and credit %d together are more than %d units, or than refill in %v; raise the quota or lower them",
		l.burst(), l.Debt, b.Credit, int64(MaxQuota), bounds.MaxRefill)
	refuse(b.Refill != Continuous, "Credit", "goes with continuous refill alone: a bucket that waits for its refill is not full; leave out the credit or the refill")
	refuse(b.InitialDeficit != 0, "Credit", "does not go with initial: a key that has yet to earn its burst is not full; leave out one of them")
	refuse(b.NextWaits, "Credit", "does not go with next-waits: a take may cost more than is there already; leave out one of them")
	refuse(b.WarmUp != 0, "Credit", "does not go with warm-up: a cold key would have its credit at once, and pay for it as for any unit; leave out one of them")
	refuse(l.CountDenied, "Credit", "does not go with count-denied: requests that are denied would spend it; leave out one of them")
}

func (l Limit) validateFixed(w FixedWindow, refuse refuser) {
	dated := w.Calendar != NoCalendar
	refuse(w.Calendar >= calendars, "Calendar", "%v is not one of Day, Week, Month and Year", w.Calendar)
	refuse(!dated && w.Zone != "", "Zone", "%q needs a Calendar; a window of fixed length has no time zone", w.Zone)
	if dated && w.Calendar < calendars {
		refuse(l.Window != 0 && l.Window != w.Calendar.nominal(), "Window", "%v is not a calendar %v; leave Window zero", l.Window, w.Calendar)
		_, err := time.LoadLocation(w.Zone)
		refuse(err != nil || w.Zone == "Local", "Zone", "%q is not a known IANA time zone, such as Asia/Seoul; a program without the system's zone files imports time/tzdata", w.Zone)
	}
	refuse(w.OnFirst && dated, "OnFirst", "a calendar window starts with its %v, not with the first request; choose one", w.Calendar)
	problem := w.From.fault(w.Calendar)
	refuse(problem != "", "From", "%s", problem)
	refuse(w.InitialDeficit < 0 || w.InitialDeficit > l.Quota && l.Quota >= 1, "InitialDeficit", "%d must be 0 to the quota of %d", w.InitialDeficit, l.Quota)
	refuse(w.InitialDeficit > 0 && w.OnFirst, "InitialDeficit", "a window that a key's first request opens is not one in which the rule starts; leave it zero")
	isDay := time.Sunday <= w.WeekStart && w.WeekStart <= time.Saturday
	refuse(!isDay, "WeekStart", "%d is not a day of the week", int(w.WeekStart))
	refuse(isDay && w.WeekStart != time.Sunday && w.Calendar != Week, "WeekStart", "only a calendar week has a first day")
}

func (l Limit) validateCounter(c SlidingCounter, refuse refuser) {
	n := max(c.SubWindows, 1)
	inBounds := c.SubWindows >= 0 && n <= bounds.MaxSubWindow
	refuse(!inBounds, "SubWindows", "%d must be 1 to %d, or 0 for 1", c.SubWindows, bounds.MaxSubWindow)
	refuse(inBounds && l.Window.Microseconds()%int64(n) != 0, "SubWindows", "%d must divide the window of %v into whole microseconds", c.SubWindows, l.Window)
	refuse(c.Strict && (c.Conservative || c.Whole), "Strict", "a counter of whole sub-windows rounds nothing; use one of Strict, Conservative and Whole")
	refuse(c.Conservative && c.Whole, "Whole", "a conservative counter counts one sub-window more; use one of them")
	refuse(c.Whole && (c.SubWindows == 0 || c.SubWindows == 1), "Whole", "needs 2 sub-windows or more; one alone is a fixed-window")
	if most := bounds.MaxCounterQuota(min(n, bounds.MaxSubWindow)); l.Quota <= MaxQuota && l.Debt <= MaxQuota-l.Quota { // otherwise refused before
		refuse(l.Quota+l.Debt > most, "Quota", "%d and a debt of %d are more than the %d units that sub-windows %d can count; use a smaller quota, fewer sub-windows or sliding-histogram",
			l.Quota, max(l.Debt, 0), most, min(n, bounds.MaxSubWindow))
	}
	if l.Window <= 0 || l.Quota < 1 || l.Debt <= 0 {
		return
	}
	run := l.Window // the time in which a Quota is paid; the last two may still count
	if c.Conservative {
		run += l.Window / time.Duration(n)
	}
	refuse((l.Debt-1)/l.Quota+3 > int64(bounds.MaxRefill/run), "Debt", "a debt of %d takes longer than %v to pay at %d every %v; raise the quota or lower it", l.Debt, bounds.MaxRefill, l.Quota, run)
}

func (l Limit) validateBlock(b Block, refuse refuser) {
	refuse.length("For", b.For, MaxWindow, ": how long a key is denied, such as in 20/min block 10min")
	refuse(l.Unit == Bytes, "Unit", "a block counts denials, not bytes; use a plain number of them")
	refuse(l.CountDenied, "CountDenied", "a block counts only denials; leave it out")
	refuse(l.Debt > 0, "Debt", "a block counts denials, and records no units; leave it zero")
}
