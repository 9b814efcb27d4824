// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
)

// Bounds of the fields of a [Limit] and a [Request]. Within them every decision
// is computed exactly, in this process and in a script on Redis alike.
const (
	// NoDebt is an explicit Debt of zero: "100/min debt 0".
	NoDebt = -1<<63 + 1

	MaxQuota    = 1<<53 - 1            // units: largest cost, Quota plus Debt and Burst plus Debt plus Credit
	MaxWindow   = 366 * 24 * time.Hour // longest Window
	MaxWait     = time.Hour            // longest wait or reservation
	MaxKeyBytes = 64 << 10             // longest key
	MaxCharges  = 16                   // most charges in a Request
)

// MaxRetryAfter is the longest RetryAfter. A cost that is TooLarge has it, too.
const MaxRetryAfter = 2*MaxWindow + MaxWait

// Limit is a rule: at most Quota units per Window for each key, counted by an
// Algorithm. It is a plain value that can be compared, used as the key of a map, printed,
// and written as text in a configuration: see [ParseLimit]. [Limit.Validate] names
// every fault.
type Limit struct {
	// Name distinguishes the limits of one scope, in state, metrics and header
	// fields: 1 to 64 of [a-z0-9._-]. Empty means a name made of the algorithm
	// and the window but not the quota, so that a changed quota carries over.
	Name   string
	Quota  int64         // units granted per Window, or denials of a block; at least 1
	Unit   Unit          // requests or bytes
	Window time.Duration // whole µs; at least 1 µs; zero where the Algorithm has a Calendar

	// Burst is the number of units that an idle key may spend at once in a bucket.
	// Zero means 1 in a leaky bucket and in a token bucket with a WarmUp, and Quota in any
	// other token bucket. No other algorithm has a Burst.
	Burst int64
	// Debt is the number of units that a charge may record above a full key, for costs
	// that are known only afterwards. Zero records none. In a rule of package policy whose
	// cost is known only afterwards, zero means a default and [NoDebt] means none.
	Debt int64

	// CountDenied counts denied requests too, whichever limit of the plan denies them,
	// until the limit is full: a client that keeps pressing stays out. With windows on the
	// clock it stays out until the window ends.
	CountDenied bool

	// Algorithm is the way of counting with its options, such as
	// FixedWindow{Calendar: Month}. Nil means TokenBucket{}.
	Algorithm Algorithm
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

// Filled returns l with the defaults in place of its zero fields, the Name and a nil
// Algorithm included. It does not validate.
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
	l.Burst = l.burst()
	switch a := l.Algorithm.(type) {
	case nil:
		l.Algorithm = TokenBucket{}
	case LeakyBucket:
		a.DelayAfter = orDefault(a.DelayAfter, 1)
		l.Algorithm = a
	case FixedWindow:
		if a.Calendar != NoCalendar && a.Calendar < calendars {
			l.Window = a.Calendar.nominal()
			a.Zone = orDefault(a.Zone, "UTC")
			a.From = a.From.filled(a.Calendar)
			l.Algorithm = a
		}
	case SlidingCounter:
		a.SubWindows = orDefault(a.SubWindows, 1)
		l.Algorithm = a
	case SlidingHistogram:
		a.Precision = orDefault(a.Precision, bounds.DefaultPrecision)
		l.Algorithm = a
	default: // have no defaults
	}
	return l
}

// burst returns Burst with its default.
func (l Limit) burst() int64 {
	switch a := l.Algorithm.(type) {
	case nil:
		return orDefault(l.Burst, l.Quota)
	case TokenBucket:
		if a.WarmUp != 0 {
			return orDefault(l.Burst, 1)
		}
		return orDefault(l.Burst, l.Quota)
	case LeakyBucket:
		return orDefault(l.Burst, 1)
	}
	return l.Burst
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Full returns the number of units that an idle key may spend at once: the Burst of a
// bucket, plus its Debt with NextWaits; [MaxQuota] for a block; and the Quota of every
// other algorithm.
func (l Limit) Full() int64 {
	switch a := l.Algorithm.(type) {
	case TokenBucket:
		if a.NextWaits {
			return l.burst() + l.Debt
		}
	case Block:
		return MaxQuota
	}
	return l.idleUnits()
}

// idleUnits returns the number of units of an idle key: the Burst of a bucket, the Quota
// of every other algorithm.
func (l Limit) idleUnits() int64 {
	if o, _ := optionsOf(l.Algorithm); o.Kind.Bucket() {
		return l.burst()
	}
	return l.Quota
}

// queues reports whether l may delay requests until their turn. Only a leaky bucket whose
// DelayAfter is below its Burst does.
func (l Limit) queues() bool {
	b, leaky := l.Algorithm.(LeakyBucket)
	return leaky && orDefault(b.DelayAfter, 1) < l.burst()
}

func (l Limit) defaultName() string {
	name := algorithmName(l.Algorithm) + "." + strings.ReplaceAll(l.formatWindow(), "µ", "u")
	if w, _ := l.Algorithm.(FixedWindow); w.Calendar != NoCalendar {
		name += "." + strings.ToLower(strings.ReplaceAll(orDefault(w.Zone, "UTC"), "/", "-"))
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
	if w, _ := l.Algorithm.(FixedWindow); w.Calendar != NoCalendar {
		return w.Calendar.String()
	}
	return formatDuration(l.Window)
}
