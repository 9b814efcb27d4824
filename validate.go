// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/span"
)

// LimitError is one fault of a [Limit].
type LimitError struct {
	Field   string // the field of Limit, as in Go
	Problem string // what is wrong and what to write instead
}

// Error returns the fault with its field.
func (e *LimitError) Error() string { return "sluice: limit: " + e.Field + ": " + e.Problem }

// Validate returns nil, or every fault of l joined, each a [*LimitError]. What
// passes can be computed exactly. It loads the calendar's time zone.
func (l Limit) Validate() error {
	var faults []error
	add := func(field, format string, args ...any) {
		faults = append(faults, &LimitError{Field: field, Problem: fmt.Sprintf(format, args...)})
	}
	if l.Name != "" && !validName(l.Name) {
		add("Name", "%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", l.Name)
	}
	if l.Unit >= units {
		add("Unit", "%v is neither Requests nor Bytes", l.Unit)
	}
	if l.Quota < 1 || l.Quota > MaxQuota {
		add("Quota", "%d must be 1 to %d units", l.Quota, int64(MaxQuota))
	}
	if l.Debt == NoDebt {
		l.Debt = 0
	}
	if l.Debt < 0 || l.Debt > MaxQuota {
		add("Debt", "%d must be 0 to %d units", l.Debt, int64(MaxQuota))
	} else if full := max(l.Quota, l.Burst); full <= MaxQuota && l.Debt > MaxQuota-full {
		add("Debt", "%d and the quota or burst of %d are more than %d units together; use a debt of %d at most", l.Debt, full, int64(MaxQuota), MaxQuota-full)
	}
	l.validateWindow(add)
	l.validateStrays(add)
	switch l.Algorithm {
	case TokenBucket, LeakyBucket:
		l.validateBucket(add)
	case FixedWindow:
		l.validateFixed(add)
	case SlidingLog:
		if l.Quota >= 1 && l.Debt >= 0 && (l.Quota > bounds.MaxLogQuota || l.Debt > bounds.MaxLogQuota-l.Quota) {
			add("Quota", "a sliding log keeps an entry per unit, at most %d with the debt; use sliding-histogram, which never admits more either", bounds.MaxLogQuota)
		}
	case SlidingCounter:
		if l.SubWindows < 0 || l.SubWindows > bounds.MaxSubWindow {
			add("SubWindows", "%d must be 1 to %d, or 0 for 1", l.SubWindows, bounds.MaxSubWindow)
		} else if n := int64(max(l.SubWindows, 1)); l.Window.Microseconds()%n != 0 {
			add("SubWindows", "%d must divide the window of %v into whole microseconds", l.SubWindows, l.Window)
		}
		l.validateRule(add)
		l.validateCount(add)
		l.validateDebt(add)
	case SlidingHistogram:
		if l.Precision != 0 && (l.Precision < 3 || l.Precision > 1024) {
			add("Precision", "%d must be 3 to 1024, or 0 for %d", l.Precision, bounds.DefaultPrecision)
		}
	case Block:
		l.validateBlock(add)
	default:
		add("Algorithm", "%v is not one of the algorithms", l.Algorithm)
	}
	return errors.Join(faults...)
}

func (l Limit) validateWindow(add func(string, string, ...any)) {
	switch {
	case l.Calendar >= calendars:
		add("Calendar", "%v is not one of Day, Week, Month and Year", l.Calendar)
		return
	case l.Calendar != NoCalendar:
		if l.Window != 0 && l.Window != l.Calendar.nominal() {
			add("Window", "%v is not a calendar %v; leave Window zero", l.Window, l.Calendar)
		}
		if _, err := time.LoadLocation(l.Zone); err != nil || l.Zone == "Local" {
			add("Zone", "%q is not a known IANA time zone, such as Asia/Seoul; a program without the system's zone files imports time/tzdata", l.Zone)
		}
		return
	}
	if l.Window < time.Microsecond || l.Window > MaxWindow {
		add("Window", "%v must be 1µs to %v", l.Window, MaxWindow)
	}
	if l.Window%time.Microsecond != 0 {
		add("Window", "%v is not a whole number of microseconds", l.Window)
	}
}

// validateCount finds a quota of a sliding counter whose sub-windows may sum up to more than
// a script on Redis counts.
func (l Limit) validateCount(add func(string, string, ...any)) {
	n := min(max(l.SubWindows, 1), bounds.MaxSubWindow)
	if l.Quota > MaxQuota || l.Debt > MaxQuota-l.Quota {
		return // named already
	}
	if most := bounds.MaxCounterQuota(n); l.Quota+l.Debt > most {
		add("Quota", "%d and a debt of %d are more than the %d units that sub-windows %d can count; use a smaller quota, fewer sub-windows or sliding-histogram", l.Quota, max(l.Debt, 0), most, n)
	}
}

// validateDebt finds a debt of a sliding counter that takes too long to pay.
func (l Limit) validateDebt(add func(string, string, ...any)) {
	if l.Window <= 0 || l.Quota < 1 || l.Debt <= 0 {
		return
	}
	run := l.Window // in which a Quota is paid; of what is paid last, two may be in sight
	if l.Conservative {
		run += l.Window / time.Duration(max(l.SubWindows, 1))
	}
	if (l.Debt-1)/l.Quota+3 > int64(bounds.MaxRefill/run) {
		add("Debt", "a debt of %d takes longer than %v to pay at %d every %v; raise the quota or lower it", l.Debt, bounds.MaxRefill, l.Quota, run)
	}
}

// validateStrays finds the fields that have a value but no meaning under l's
// algorithm: their value promises something that would not happen.
func (l Limit) validateStrays(add func(string, string, ...any)) {
	if l.Algorithm >= algorithms {
		return
	}
	if l.Burst != 0 && !l.Algorithm.bucket() {
		add("Burst", "%v has none: an idle key may spend its quota; leave Burst zero or choose a bucket", l.Algorithm)
	}
	for _, f := range []struct {
		field string
		set   bool
		of    Algorithm
	}{
		{"Refill", l.Refill != Continuous, TokenBucket},
		{"InitialDeficit", l.InitialDeficit != 0 && l.Algorithm != FixedWindow, TokenBucket},
		{"NextWaits", l.NextWaits, TokenBucket},
		{"WarmUp", l.WarmUp != 0, TokenBucket},
		{"Credit", l.Credit != 0, TokenBucket},
		{"CreditFor", l.CreditFor != 0, TokenBucket},
		{"DelayAfter", l.DelayAfter != 0, LeakyBucket},
		{"Anchor", l.Anchor != OnClock, FixedWindow},
		{"Calendar", l.Calendar != NoCalendar, FixedWindow},
		{"Zone", l.Zone != "", FixedWindow},
		{"WeekStart", l.WeekStart != time.Sunday, FixedWindow},
		{"From", l.From != Moment{}, FixedWindow},
		{"SubWindows", l.SubWindows != 0, SlidingCounter},
		{"Conservative", l.Conservative, SlidingCounter},
		{"Whole", l.Whole, SlidingCounter},
		{"Strict", l.Strict, SlidingCounter},
		{"PreFilled", l.PreFilled, SlidingCounter},
		{"Precision", l.Precision != 0, SlidingHistogram},
		{"BlockFor", l.BlockFor != 0, Block},
	} {
		if f.set && f.of != l.Algorithm {
			add(f.field, "belongs to %v, not to %v; leave it zero or choose that algorithm", f.of, l.Algorithm)
		}
	}
}

func (l Limit) validateBucket(add func(string, string, ...any)) {
	if l.Burst < 0 || l.Burst > MaxQuota {
		add("Burst", "%d must be 1 to %d units, or 0 for the default", l.Burst, int64(MaxQuota))
	}
	if l.Algorithm == TokenBucket && l.CountDenied && (l.NextWaits || l.Refill == Aligned) {
		add("CountDenied", "does not go with next-waits, under which the next take waits in any case, nor with aligned-refill, whose units come back with the clock; leave it out")
	}
	burst := l.withDefaults().Burst // which the quota may have spoiled
	sound := 1 <= burst && burst <= MaxQuota
	if l.Algorithm == TokenBucket {
		if l.Refill >= refills {
			add("Refill", "%d is none of Continuous, Interval and Aligned", l.Refill)
		}
		if l.InitialDeficit < 0 || l.InitialDeficit > MaxQuota || sound && l.InitialDeficit > burst {
			add("InitialDeficit", "%d must be 0 to the burst of %d", l.InitialDeficit, burst)
		}
		if l.NextWaits && l.Debt == 0 {
			add("NextWaits", "needs a Debt, which is how far above the burst a take may go; use one, such as debt %d", max(burst, 1))
		}
		l.validateWarmUp(add)
		l.validateCredit(add)
	} else if l.DelayAfter < 0 || l.DelayAfter > MaxQuota || sound && l.DelayAfter > burst {
		add("DelayAfter", "%d must be 1 to the burst of %d, or 0 for 1", l.DelayAfter, burst)
	}
	if !sound || l.Quota < 1 || l.Quota > MaxQuota || l.Debt < 0 || l.Debt > MaxQuota || l.Window < time.Microsecond || l.Window > MaxWindow {
		return // named already
	}
	if l.Credit > 0 && l.Credit <= MaxQuota && l.Refill == Continuous {
		if over := burst + l.Debt; l.Credit > MaxQuota-over || !span.New(l.Quota, l.Window.Microseconds()).Fits(over+l.Credit, bounds.MaxRefill.Microseconds()) {
			add("Credit", "burst %d, debt %d and credit %d together are more than %d units, or than refill in %v; raise the quota or lower them",
				burst, l.Debt, l.Credit, int64(MaxQuota), bounds.MaxRefill)
		}
	}
	r, n := span.New(l.Quota, l.Window.Microseconds()), burst+l.Debt
	if l.Refill != Continuous {
		r, n = span.New(1, l.Window.Microseconds()), (burst+l.Debt-1)/l.Quota+1 // windows
	}
	if !r.Fits(n, bounds.MaxRefill.Microseconds()) {
		add("Burst", "burst %d plus debt %d take longer than %v to refill; raise the quota or lower them", burst, l.Debt, bounds.MaxRefill)
	}
}

// validateWarmUp finds what is wrong with how a token bucket warms up, or does not
// go with that.
func (l Limit) validateWarmUp(add func(string, string, ...any)) {
	if l.WarmUp == 0 {
		return
	}
	if l.WarmUp < time.Microsecond || l.WarmUp > bounds.MaxWarmUp {
		add("WarmUp", "%v must be 1µs to %v, or 0 for none", l.WarmUp, bounds.MaxWarmUp)
	}
	if l.WarmUp%time.Microsecond != 0 {
		add("WarmUp", "%v is not a whole number of microseconds", l.WarmUp)
	}
	if l.Refill != Continuous {
		add("Refill", "units that come back together warm nothing up one by one; leave out the warm-up, or interval-refill and aligned-refill")
	}
	if l.InitialDeficit != 0 {
		add("InitialDeficit", "a rule with a warm-up starts with cold keys, not with empty ones; leave out the warm-up or initial")
	}
	if l.CountDenied {
		add("CountDenied", "would keep a key warm that gets nothing; leave out the warm-up or count-denied")
	}
}

// validateCredit finds what credit does not go with. It lies above a full bucket:
// where that is full must be known at every instant, and by what takes spend alone.
func (l Limit) validateCredit(add func(string, string, ...any)) {
	if l.Credit < 0 || l.Credit > MaxQuota {
		add("Credit", "%d must be 0 to %d units", l.Credit, int64(MaxQuota))
	}
	switch {
	case l.Credit == 0 && l.CreditFor == 0:
		return
	case l.Credit == 0:
		add("CreditFor", "%v is how long credit lasts, and there is none; use one, such as credit 50, or leave it out", l.CreditFor)
	case l.CreditFor < time.Microsecond || l.CreditFor > MaxWindow:
		add("CreditFor", "%v must be 1µs to %v: how long credit lasts, such as in 100/min credit 50 credit-for 24h", l.CreditFor, MaxWindow)
	}
	if l.CreditFor%time.Microsecond != 0 {
		add("CreditFor", "%v is not a whole number of microseconds", l.CreditFor)
	}
	if l.Refill != Continuous {
		add("Credit", "goes with continuous refill alone: a bucket that waits for its refill is not full; leave out the credit or the refill")
	}
	if l.InitialDeficit != 0 {
		add("Credit", "does not go with initial: a key that has yet to earn its burst is not full; leave out one of them")
	}
	if l.NextWaits {
		add("Credit", "does not go with next-waits: a take may cost more than is there already; leave out one of them")
	}
	if l.WarmUp != 0 {
		add("Credit", "does not go with warm-up: a cold key would have its credit at once, and pay for it as for any unit; leave out one of them")
	}
	if l.CountDenied {
		add("Credit", "does not go with count-denied: requests that are denied would spend it; leave out one of them")
	}
}

// validateRule finds what the rules of a sliding counter say against each other.
func (l Limit) validateRule(add func(string, string, ...any)) {
	if l.Strict && (l.Conservative || l.Whole) {
		add("Strict", "a counter of whole sub-windows rounds nothing; use one of Strict, Conservative and Whole")
	}
	if l.Conservative && l.Whole {
		add("Whole", "a conservative counter counts one sub-window more; use one of them")
	}
	if l.Whole && l.SubWindows == 1 || l.Whole && l.SubWindows == 0 {
		add("Whole", "needs 2 sub-windows or more; one alone is a fixed-window")
	}
}

func (l Limit) validateFixed(add func(string, string, ...any)) {
	switch {
	case l.Anchor >= anchors:
		add("Anchor", "%d is neither OnClock nor OnFirst", l.Anchor)
	case l.Anchor == OnFirst && l.Calendar != NoCalendar:
		add("Anchor", "a calendar window starts with its %v, not with the first request; choose one", l.Calendar)
	}
	if l.Calendar == NoCalendar && l.Zone != "" {
		add("Zone", "%q needs a Calendar; a window of fixed length has no time zone", l.Zone)
	}
	if problem := l.From.fault(l.Calendar); problem != "" {
		add("From", "%s", problem)
	}
	switch {
	case l.InitialDeficit < 0 || l.InitialDeficit > l.Quota && l.Quota >= 1:
		add("InitialDeficit", "%d must be 0 to the quota of %d", l.InitialDeficit, l.Quota)
	case l.InitialDeficit > 0 && l.Anchor == OnFirst:
		add("InitialDeficit", "a window that a key's first request opens is not one in which the rule starts; leave it zero")
	}
	if l.WeekStart < time.Sunday || l.WeekStart > time.Saturday {
		add("WeekStart", "%d is not a day of the week", int(l.WeekStart))
	} else if l.WeekStart != time.Sunday && l.Calendar != Week {
		add("WeekStart", "only a calendar week has a first day")
	}
}

func (l Limit) validateBlock(add func(string, string, ...any)) {
	if l.BlockFor < time.Microsecond || l.BlockFor > MaxWindow {
		add("BlockFor", "%v must be 1µs to %v: how long a key is denied, such as in 20/min block 10min", l.BlockFor, MaxWindow)
	}
	if l.BlockFor%time.Microsecond != 0 {
		add("BlockFor", "%v is not a whole number of microseconds", l.BlockFor)
	}
	if l.Unit == Bytes {
		add("Unit", "a block counts denials, not bytes; use a plain number of them")
	}
	if l.CountDenied {
		add("CountDenied", "a block counts nothing else than denials; leave it out")
	}
	if l.Debt > 0 {
		add("Debt", "a block counts denials, and records no units; leave it zero")
	}
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	return !slices.ContainsFunc([]byte(s), func(c byte) bool {
		return !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-')
	})
}
