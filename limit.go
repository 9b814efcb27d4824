// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/span"
)

// Bounds of what a [Limit] and a [Request] may hold. Within them every decision
// is computed exactly, in this process and in a script on Redis alike.
const (
	MaxQuota     = 1<<53 - 1            // units: largest Quota, Burst, Debt and cost
	MaxWindow    = 366 * 24 * time.Hour // longest Window
	MaxRefill    = 2 * MaxWindow        // longest time in which a bucket's Burst plus Debt may refill
	MaxLogQuota  = 1 << 16              // units: largest Quota plus Debt of a sliding log
	MaxSubWindow = 1024                 // most sub-windows of a sliding counter
	MaxWait      = time.Hour            // longest wait or reservation
	MaxKeyBytes  = 64 << 10             // longest key
	MaxLimits    = 16                   // most limits in a Plan
	MaxCharges   = 16                   // most charges in a Request

	// DefaultPrecision is the Precision of a sliding histogram that names none.
	DefaultPrecision = 32
)

// Never is the RetryAfter of a cost that can never fit.
const Never time.Duration = 1<<63 - 1

// Limit is a rule: at most Quota units per Window for each key, counted by an
// Algorithm. It is a plain value that can be compared, printed and, as text,
// written in a configuration: see [ParseLimit]. Fields that do not belong to
// the Algorithm must be zero; [Limit.Validate] names every fault.
type Limit struct {
	// Name tells the limits of one scope apart, in state, metrics and header
	// fields: 1 to 64 of [a-z0-9._-]. Empty means a name made of the algorithm
	// and the window but not the quota, so that a changed quota carries over.
	Name      string
	Algorithm Algorithm
	Quota     int64         // units granted per Window; at least 1
	Unit      Unit          // what a unit is
	Window    time.Duration // whole µs; at least 1 µs; zero where Calendar is set

	// Burst is, in a bucket, the units that a rested key may spend at once.
	// Zero means Quota in a token bucket and 1 in a leaky bucket.
	Burst int64
	// Debt is how many units above full a charge may be recorded whose cost is
	// known only afterwards. Zero records none: the key is full, no more.
	Debt int64

	Refill   Refill // token bucket: continuous or interval
	Withheld int64  // token bucket: units of Burst that a never-seen key lacks and earns as it goes

	// DelayAfter is, in a leaky bucket, how many units of a burst pass without
	// delay. Zero means 1: every further unit waits its turn (a queue). Burst
	// means that none waits (a meter).
	DelayAfter int64

	Anchor    Anchor       // fixed window: on the clock or on the first request
	Calendar  Calendar     // fixed window: day, week, month or year of Zone
	Zone      string       // calendar: IANA time zone; empty means UTC
	WeekStart time.Weekday // calendar week: its first day; zero is Sunday, as in package time

	CountDenied bool // sliding log: denied requests count too, so a client that keeps pressing stays out

	SubWindows   int  // sliding counter: parts of the window; zero means 1; must divide Window
	Conservative bool // sliding counter: count the part that is half in sight whole: never over Quota
	PreFilled    bool // sliding counter: a never-seen key starts as if Quota had been used in the window before

	Precision int // sliding histogram: k, 3 to 1024; zero means DefaultPrecision
}

// Per returns a token bucket of quota units per window, with a burst of quota.
func Per(quota int64, window time.Duration) Limit { return Limit{Quota: quota, Window: window} }

// PerSecond returns a token bucket of quota units per second.
func PerSecond(quota int64) Limit { return Per(quota, time.Second) }

// PerMinute returns a token bucket of quota units per minute.
func PerMinute(quota int64) Limit { return Per(quota, time.Minute) }

// PerHour returns a token bucket of quota units per hour.
func PerHour(quota int64) Limit { return Per(quota, time.Hour) }

// PerDay returns a token bucket of quota units per 24 hours.
func PerDay(quota int64) Limit { return Per(quota, 24*time.Hour) }

// With returns l counted by another algorithm.
func (l Limit) With(a Algorithm) Limit {
	l.Algorithm = a
	return l
}

// WithBurst returns l with another burst.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// Named returns l with another name.
func (l Limit) Named(name string) Limit {
	l.Name = name
	return l
}

// Filled returns l with every zero field that means a default replaced by it,
// the Name included. It does not validate.
func (l Limit) Filled() Limit {
	switch l.Algorithm {
	case TokenBucket:
		l.Burst = orDefault(l.Burst, l.Quota)
	case LeakyBucket:
		l.Burst = orDefault(l.Burst, 1)
		l.DelayAfter = orDefault(l.DelayAfter, 1)
	case FixedWindow:
		if l.Calendar != NoCalendar && l.Calendar < calendars {
			l.Window = l.Calendar.Nominal()
			l.Zone = orDefault(l.Zone, "UTC")
		}
	case SlidingCounter:
		l.SubWindows = orDefault(l.SubWindows, 1)
	case SlidingHistogram:
		l.Precision = orDefault(l.Precision, DefaultPrecision)
	}
	l.Name = orDefault(l.Name, l.defaultName())
	return l
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Full returns how many units a rested key may spend at once: the Burst of a
// bucket, the Quota of every other algorithm.
func (l Limit) Full() int64 {
	if l.Algorithm.bucket() {
		return l.Filled().Burst
	}
	return l.Quota
}

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
	if l.Algorithm >= algorithms {
		add("Algorithm", "%v is not one of the algorithms", l.Algorithm)
	}
	if l.Unit >= units {
		add("Unit", "%v is neither Requests nor Bytes", l.Unit)
	}
	if l.Quota < 1 || l.Quota > MaxQuota {
		add("Quota", "%d must be 1 to %d units", l.Quota, int64(MaxQuota))
	}
	if l.Debt < 0 || l.Debt > MaxQuota {
		add("Debt", "%d must be 0 to %d units", l.Debt, int64(MaxQuota))
	}
	l.validateWindow(add)
	l.validateBucket(add)
	l.validateWindowed(add)
	return errors.Join(faults...)
}

func (l Limit) validateWindow(add func(string, string, ...any)) {
	switch {
	case l.Calendar >= calendars:
		add("Calendar", "%v is not one of day, week, month and year", l.Calendar)
	case l.Calendar != NoCalendar && l.Window != 0 && l.Window != l.Calendar.Nominal():
		add("Window", "%v is not a calendar %v; leave Window zero", l.Window, l.Calendar)
	case l.Calendar != NoCalendar:
		if _, err := time.LoadLocation(l.Zone); err != nil || l.Zone == "Local" {
			add("Zone", "%q is not a known IANA time zone, such as Asia/Seoul; a program without the system's zone files imports time/tzdata", l.Zone)
		}
	case l.Window < time.Microsecond || l.Window > MaxWindow:
		add("Window", "%v must be 1µs to %v", l.Window, MaxWindow)
	case l.Window%time.Microsecond != 0:
		add("Window", "%v is not a whole number of microseconds", l.Window)
	}
}

func (l Limit) validateBucket(add func(string, string, ...any)) {
	if !l.Algorithm.bucket() {
		if l.Burst != 0 {
			add("Burst", "%v has none: a rested key may spend its quota; leave Burst zero or choose a bucket", l.Algorithm)
		}
		if l.Refill != Continuous || l.Withheld != 0 || l.DelayAfter != 0 {
			add("Refill", "Refill, Withheld and DelayAfter belong to buckets, not to %v", l.Algorithm)
		}
		return
	}
	if l.Burst < 0 || l.Burst > MaxQuota {
		add("Burst", "%d must be 1 to %d units, or 0 for the default", l.Burst, int64(MaxQuota))
		return
	}
	burst := l.Filled().Burst
	if l.Algorithm == TokenBucket {
		if l.Refill >= refills {
			add("Refill", "%d is neither Continuous nor Interval", l.Refill)
		}
		if l.Withheld < 0 || l.Withheld > burst {
			add("Withheld", "%d must be 0 to the burst of %d", l.Withheld, burst)
		}
		if l.DelayAfter != 0 {
			add("DelayAfter", "belongs to leaky-bucket: a token bucket never delays")
		}
	} else {
		if l.Refill != Continuous || l.Withheld != 0 {
			add("Refill", "Refill and Withheld belong to token-bucket")
		}
		if l.DelayAfter < 0 || l.DelayAfter > burst {
			add("DelayAfter", "%d must be 1 to the burst of %d, or 0 for 1", l.DelayAfter, burst)
		}
	}
	if l.Quota < 1 || l.Quota > MaxQuota || l.Debt < 0 || l.Debt > MaxQuota || l.Window < time.Microsecond || l.Window > MaxWindow {
		return // named already
	}
	r := span.New(l.Quota, l.Window.Microseconds())
	if l.Refill == Interval {
		r = span.New(1, l.Window.Microseconds())
		if !r.Fits((burst+l.Debt)/l.Quota+2, MaxRefill.Microseconds()) {
			add("Burst", "burst %d plus debt %d take longer than %v to refill; raise the quota or lower them", burst, l.Debt, MaxRefill)
		}
	} else if !r.Fits(burst+l.Debt, MaxRefill.Microseconds()) {
		add("Burst", "burst %d plus debt %d take longer than %v to refill; raise the quota or lower them", burst, l.Debt, MaxRefill)
	}
}

func (l Limit) validateWindowed(add func(string, string, ...any)) {
	if l.Algorithm != FixedWindow {
		if l.Anchor != OnClock || l.Calendar != NoCalendar || l.Zone != "" || l.WeekStart != time.Sunday {
			add("Calendar", "Anchor, Calendar, Zone and WeekStart belong to fixed-window, not to %v", l.Algorithm)
		}
	} else {
		switch {
		case l.Anchor >= anchors:
			add("Anchor", "%d is neither OnClock nor OnFirst", l.Anchor)
		case l.Anchor == OnFirst && l.Calendar != NoCalendar:
			add("Anchor", "a calendar window starts with its %v, not with the first request; choose one", l.Calendar)
		case l.Calendar == NoCalendar && l.Zone != "":
			add("Zone", "%q needs a Calendar; a window of fixed length has no time zone", l.Zone)
		}
		if l.WeekStart < time.Sunday || l.WeekStart > time.Saturday {
			add("WeekStart", "%d is not a day of the week", l.WeekStart)
		} else if l.WeekStart != time.Sunday && l.Calendar != Week {
			add("WeekStart", "only a calendar week has a first day")
		}
	}
	if l.Algorithm != SlidingLog && l.CountDenied {
		add("CountDenied", "belongs to sliding-log, not to %v", l.Algorithm)
	}
	if l.Algorithm == SlidingLog && l.Quota >= 1 && l.Debt >= 0 && (l.Quota > MaxLogQuota || l.Debt > MaxLogQuota-l.Quota) {
		add("Quota", "a sliding log keeps an entry per unit, at most %d with the debt; use sliding-histogram, which never admits more either", MaxLogQuota)
	}
	if l.Algorithm != SlidingCounter {
		if l.SubWindows != 0 || l.Conservative || l.PreFilled {
			add("SubWindows", "SubWindows, Conservative and PreFilled belong to sliding-counter, not to %v", l.Algorithm)
		}
	} else if l.SubWindows < 0 || l.SubWindows > MaxSubWindow {
		add("SubWindows", "%d must be 1 to %d, or 0 for 1", l.SubWindows, MaxSubWindow)
	} else if n := int64(max(l.SubWindows, 1)); l.Window.Microseconds()%n != 0 {
		add("SubWindows", "%d must divide the window of %v into whole microseconds", l.SubWindows, l.Window)
	}
	if l.Algorithm != SlidingHistogram && l.Precision != 0 {
		add("Precision", "belongs to sliding-histogram, not to %v", l.Algorithm)
	} else if l.Precision != 0 && (l.Precision < 3 || l.Precision > 1024) {
		add("Precision", "%d must be 3 to 1024, or 0 for %d", l.Precision, DefaultPrecision)
	}
}

func validName(s string) bool {
	if len(s) < 1 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}
