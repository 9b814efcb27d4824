// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

// Bounds of what a [Limit] and a [Request] may hold. Within them every decision
// is computed exactly, in this process and in a script on Redis alike.
const (
	// NoDebt is a Debt of zero that was written: "100/min debt 0".
	NoDebt = -1<<63 + 1

	MaxQuota    = 1<<53 - 1            // units: largest cost, Quota plus Debt and Burst plus Debt plus Credit
	MaxWindow   = 366 * 24 * time.Hour // longest Window
	MaxWait     = time.Hour            // longest wait or reservation
	MaxKeyBytes = 64 << 10             // longest key
	MaxCharges  = 16                   // most charges in a Request
)

// MaxRetryAfter is the longest RetryAfter, and that of a cost that is TooLarge.
const MaxRetryAfter = 2*MaxWindow + MaxWait

// Limit is a rule: at most Quota units per Window for each key, counted by an
// Algorithm. It is a plain value that can be compared, printed and, as text,
// written in a configuration: see [ParseLimit]. Fields that do not belong to
// the Algorithm must be zero; [Limit.Validate] names every fault.
type Limit struct {
	// Name distinguishes the limits of one scope, in state, metrics and header
	// fields: 1 to 64 of [a-z0-9._-]. Empty means a name made of the algorithm
	// and the window but not the quota, so that a changed quota carries over.
	Name      string
	Algorithm Algorithm
	Quota     int64         // units granted per Window, or denials of a block; at least 1
	Unit      Unit          // what a unit is
	Window    time.Duration // whole µs; at least 1 µs; zero where Calendar is set

	// Burst is, in a bucket, the units that an idle key may spend at once.
	// Zero means Quota in a token bucket, and 1 in one with a WarmUp and in a leaky
	// bucket.
	Burst int64
	// Debt is how many units above full a charge may be recorded whose cost is
	// known only afterwards. Zero records none: the key is full, no more. In a rule of
	// package policy whose cost is known only afterwards zero means a default, and
	// [NoDebt] none.
	Debt int64

	Refill Refill // token bucket: continuous, by interval, or aligned to the clock
	// InitialDeficit is how many units every key lacks when the rule starts: in a token
	// bucket of Burst, earned from then on; in a fixed window that does not open
	// with a key's first request of Quota, in the window in which the rule starts.
	InitialDeficit int64

	// NextWaits lets a take of a token bucket cost more than is there: it passes
	// if nothing is owed above Burst, and may owe up to Debt above it. A take that comes
	// next waits until that is paid. Guava's RateLimiter is one.
	NextWaits bool

	// WarmUp, if not zero, makes a token bucket that refills continuously slower for
	// a cold key: whole µs, 1 µs to 1 h. A key is cold that was never
	// seen, or has owed nothing for a WarmUp. Its units last up to three times
	// Window/Quota, and that alone once it has had as many as a warm key has in half
	// a WarmUp; while it owes nothing it grows cold again. What that takes longer is
	// waited for by the next take. No more is admitted than without. Guava's
	// SmoothWarmingUp is one.
	WarmUp time.Duration

	// Credit is, in a token bucket with continuous refill, how many units above
	// Burst a key may be given: see [Limiter.Add]. They are spent first, and do not
	// come back. Zero means none.
	Credit int64
	// CreditFor is how long credit lasts since the last add that gave some: whole
	// µs, 1 µs to MaxWindow. It has no default and goes with Credit alone.
	CreditFor time.Duration

	// DelayAfter is, in a leaky bucket, how many units of a burst pass without
	// delay. Zero means 1: every further unit waits its turn (a queue). Burst
	// means that none waits (a meter).
	DelayAfter int64

	Anchor    Anchor       // fixed window: on the clock or on the first request
	Calendar  Calendar     // fixed window: day, week, month or year of Zone
	Zone      string       // calendar: IANA time zone; empty means UTC
	WeekStart time.Weekday // calendar week: its first day; zero is Sunday, as in package time
	From      Moment       // calendar: when in its day, week, month or year a window begins; zero is its first instant

	// CountDenied counts denied requests too, whichever limit of the plan denies,
	// as far as the limit is not full: a client that keeps pressing stays out. In
	// windows on the clock it does so until the window ends.
	CountDenied bool

	SubWindows   int  // sliding counter: parts of the window; zero means 1; must divide Window
	Conservative bool // sliding counter: count the part that is half in sight whole: never over Quota
	Whole        bool // sliding counter: count SubWindows whole, the running one included, and no part of one; needs 2 or more
	Strict       bool // sliding counter: round the weighed part up, not down: 2·Quota-1 at most, less of a small Quota
	PreFilled    bool // sliding counter: the rule starts as if every key had used Quota in the window before

	Precision int // sliding histogram: k, 3 to 1024, for an error of 1/(k-1) of the quota; zero means 27

	// BlockFor is, in a block, how long a key is denied that was denied Quota
	// times: whole µs, 1 µs to MaxWindow. There is no default.
	BlockFor time.Duration
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

// WithAlgorithm returns l counted by another algorithm.
func (l Limit) WithAlgorithm(a Algorithm) Limit {
	l.Algorithm = a
	return l
}

// WithBurst returns l with another burst.
func (l Limit) WithBurst(burst int64) Limit {
	l.Burst = burst
	return l
}

// WithName returns l with another name.
func (l Limit) WithName(name string) Limit {
	l.Name = name
	return l
}

// Filled returns l with every zero field that means a default replaced by it,
// the Name included. It does not validate.
func (l Limit) Filled() Limit {
	l = l.withDefaults()
	if l.Name == "" {
		l.Name = l.defaultName()
	}
	return l
}

// withDefaults fills in every default but the name.
func (l Limit) withDefaults() Limit {
	l.Debt = max(l.Debt, 0) // of NoDebt
	switch l.Algorithm {
	case TokenBucket:
		if l.WarmUp != 0 {
			l.Burst = orDefault(l.Burst, 1)
		}
		l.Burst = orDefault(l.Burst, l.Quota)
	case LeakyBucket:
		l.Burst = orDefault(l.Burst, 1)
		l.DelayAfter = orDefault(l.DelayAfter, 1)
	case FixedWindow:
		if l.Calendar != NoCalendar && l.Calendar < calendars {
			l.Window = l.Calendar.nominal()
			l.Zone = orDefault(l.Zone, "UTC")
			l.From = l.From.filled(l.Calendar)
		}
	case SlidingLog: // has no defaults
	case SlidingCounter:
		l.SubWindows = orDefault(l.SubWindows, 1)
	case SlidingHistogram:
		l.Precision = orDefault(l.Precision, bounds.DefaultPrecision)
	case Block: // has no defaults
	}
	return l
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Full returns how many units an idle key may spend at once: the Burst of a
// bucket, with its Debt if the next waits, any number under a block, and the Quota
// of every other algorithm.
func (l Limit) Full() int64 {
	switch {
	case l.Algorithm.bucket():
		return l.withDefaults().Burst + l.lent()
	case l.Algorithm == Block:
		return MaxQuota
	}
	return l.Quota
}

// lent returns how many units above Burst a take may spend.
func (l Limit) lent() int64 {
	if l.NextWaits {
		return l.Debt
	}
	return 0
}

// idleUnits returns how many units an idle key has: the Burst of a bucket, the Quota
// of every other algorithm.
func (l Limit) idleUnits() int64 {
	if l.Algorithm.bucket() {
		return l.withDefaults().Burst
	}
	return l.Quota
}

// Queues reports whether l may delay requests until their turn: a leaky
// bucket of which not all of a burst passes without delay.
func (l Limit) Queues() bool {
	return l.Algorithm == LeakyBucket && orDefault(l.DelayAfter, 1) < orDefault(l.Burst, 1)
}

func (l Limit) defaultName() string {
	name := l.Algorithm.String() + "." + strings.ReplaceAll(l.formatWindow(), "µ", "u")
	if l.Calendar != NoCalendar {
		name += "." + strings.ToLower(strings.ReplaceAll(orDefault(l.Zone, "UTC"), "/", "-"))
	}
	if l.Unit != Requests {
		name += "." + l.Unit.String()
	}
	if len(name) > 64 {
		name = name[:64]
	}
	return strings.ReplaceAll(name, "+", "p")
}

func (l Limit) formatWindow() string {
	if l.Calendar != NoCalendar {
		return l.Calendar.String()
	}
	return formatDuration(l.Window)
}
