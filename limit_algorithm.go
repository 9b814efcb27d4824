// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "time"

// Algorithm is the way a [Limit] counts, with its options: one of
// [TokenBucket], [LeakyBucket], [FixedWindow], [SlidingLog], [SlidingCounter],
// [SlidingHistogram] and [Block]. Nil, and a limit text without an algorithm, mean
// TokenBucket{}. [Limit.Validate] refuses pointers to them. Package algo states the most
// units that each admits in any span of time; docs/algorithms.md draws them.
type Algorithm interface {
	// String returns the name used in limit texts and configuration, without the
	// options.
	String() string
	algorithm()
}

// TokenBucket lets an idle key spend Burst at once and then Quota per
// Window, spread evenly. It admits at most Burst + Quota in any Window. It is the
// generic cell rate algorithm of ITU-T I.371.
type TokenBucket struct {
	Refill Refill // continuous, by interval, or aligned to the clock
	// InitialDeficit is the number of units of Burst that every key lacks when the rule
	// starts. The key earns them from then on.
	InitialDeficit int64

	// NextWaits lets a take cost more units than remain: it passes if nothing is owed above
	// Burst, and may owe up to Debt above it. The next take waits until that debt
	// is paid, as in Guava's RateLimiter.
	NextWaits bool

	// WarmUp, if not zero, slows a bucket with continuous refill down for a cold key:
	// whole µs, 1 µs to 1 h. A key is cold if it was never seen, or has owed nothing for a
	// WarmUp. Each unit of a cold key takes up to three times Window/Quota. Once the key has
	// spent as many units as a warm key earns in half a WarmUp, each takes Window/Quota.
	// While the key owes nothing it grows cold again. The next take waits for the longer
	// time. A WarmUp never admits more. Guava's SmoothWarmingUp works so.
	WarmUp time.Duration

	// Credit is the number of units above Burst that a key may be given, with continuous
	// refill: see [Limiter.Add]. They are spent first, and do not come back. Zero means none.
	Credit int64
	// CreditFor is how long credit lasts after the last add that gave some: whole
	// µs, 1 µs to MaxWindow. It has no default and requires Credit.
	CreditFor time.Duration
}

// LeakyBucket sends units out no faster than one per Window/Quota. Units that
// arrive early wait their turn in a queue of up to Burst units.
type LeakyBucket struct {
	// DelayAfter is the number of units of a burst that pass without delay. Zero means 1:
	// every further unit waits its turn (a queue). Burst means that none waits (a meter).
	DelayAfter int64
}

// FixedWindow counts up to Quota in each window. Across the edge of two
// windows it admits up to 2·Quota within one Window.
type FixedWindow struct {
	// OnFirst opens a window at a key's first request, and the next one at the first request
	// after its end. Without it windows start at multiples of Window since 1970-01-01 UTC: a
	// minute's window starts with the minute.
	OnFirst   bool
	Calendar  Calendar     // day, week, month or year of Zone
	Zone      string       // of a Calendar: IANA time zone; empty means UTC
	WeekStart time.Weekday // of a week: its first day; zero is Sunday, as in package time
	From      Moment       // of a Calendar: when in its day, week, month or year a window begins; zero is its first instant
	// InitialDeficit is the number of units of Quota that every key lacks in the window in
	// which the rule starts. It excludes OnFirst.
	InitialDeficit int64
}

// SlidingLog remembers the instant of every admitted unit. It admits at most Quota
// in any Window, exactly. Its memory grows with Quota.
type SlidingLog struct{}

// SlidingCounter weighs the previous window by the part of it that lies within the last
// Window. It is small and common, but admits up to 2·Quota within one Window, or one unit
// less if Strict, unless it is Conservative.
type SlidingCounter struct {
	SubWindows   int  // parts of the window; zero means 1; must divide Window
	Conservative bool // count all of the oldest part instead of a share of it: never over Quota
	Whole        bool // count SubWindows whole sub-windows, the running one included, and no part of one; needs 2 or more
	Strict       bool // round the weighed part up, not down: 2·Quota-1 at most, fewer with a small Quota
	PreFilled    bool // the rule starts as if every key had used Quota in the window before
}

// SlidingHistogram is a sliding log that merges its old entries. It admits at most
// Quota in any Window, in small memory. See Datar, Gionis, Indyk
// and Motwani, "Maintaining stream statistics over sliding windows", 2002.
type SlidingHistogram struct {
	Precision int // k, 3 to 1024, for an error of 1/(k-1) of the quota; zero means 27
}

// Block counts denials, not units. A key that the other limits of its [Plan] deny Quota
// times within a Window is denied for a time, whatever the cost. The plan holds at least
// one limit of another algorithm.
type Block struct {
	For time.Duration // whole µs, 1 µs to MaxWindow; there is no default
}

// String returns "token-bucket".
func (TokenBucket) String() string { return "token-bucket" }

// String returns "leaky-bucket".
func (LeakyBucket) String() string { return "leaky-bucket" }

// String returns "fixed-window".
func (FixedWindow) String() string { return "fixed-window" }

// String returns "sliding-log".
func (SlidingLog) String() string { return "sliding-log" }

// String returns "sliding-counter".
func (SlidingCounter) String() string { return "sliding-counter" }

// String returns "sliding-histogram".
func (SlidingHistogram) String() string { return "sliding-histogram" }

// String returns "block".
func (Block) String() string { return "block" }

func (TokenBucket) algorithm()      {}
func (LeakyBucket) algorithm()      {}
func (FixedWindow) algorithm()      {}
func (SlidingLog) algorithm()       {}
func (SlidingCounter) algorithm()   {}
func (SlidingHistogram) algorithm() {}
func (Block) algorithm()            {}

// Unit is what a [Limit] counts. The zero value is [Requests].
type Unit uint8

// The units. They change the text of a limit, and no decision.
const (
	Requests Unit = iota
	Bytes
	units
)

var unitNames = [...]string{Requests: "requests", Bytes: "bytes"}

// String returns "requests" or "bytes".
func (u Unit) String() string { return nameOf(u, unitNames[:], "Unit") }

// Calendar makes a fixed window follow the calendar of a time zone instead of having
// a fixed length. The zero value, [NoCalendar], keeps the fixed length.
type Calendar uint8

// The calendar windows. A window starts at the first instant whose local date
// is its first day, so a day of a daylight-saving change has 23 or 25 hours.
const (
	NoCalendar Calendar = iota
	Day
	Week
	Month
	Year
	calendars
)

var calendarNames = [...]string{NoCalendar: "none", Day: "day", Week: "week", Month: "month", Year: "year"}

// String returns "day", "week", "month", "year" or "none".
func (c Calendar) String() string { return nameOf(c, calendarNames[:], "Calendar") }

// nominal returns the window's longest nominal length, which is the Window of a calendar
// limit: 24 h for a day, 31 days for a month, 366 for a year, 0 for NoCalendar.
func (c Calendar) nominal() time.Duration {
	const day = 24 * time.Hour
	if c >= calendars {
		return 0
	}
	return [...]time.Duration{NoCalendar: 0, Day: day, Week: 7 * day, Month: 31 * day, Year: 366 * day}[c]
}

// Refill is how a token bucket gives units back. The zero value is [Continuous].
type Refill uint8

// The refills.
const (
	// Continuous gives one unit every Window/Quota.
	Continuous Refill = iota
	// Interval gives Quota units at once every Window, counted from the take
	// that found the bucket full.
	Interval
	// Aligned gives Quota units at once at every multiple of Window since
	// 1970-01-01 UTC: with a Window of a minute, whenever a minute starts.
	Aligned
	refills
)
