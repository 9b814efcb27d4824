// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import "time"

// Algorithm is the way a [Limit] counts, with the options of that way: one of
// [TokenBucket], [LeakyBucket], [FixedWindow], [SlidingLog], [SlidingCounter],
// [SlidingHistogram] and [Block]. Nil is TokenBucket{}, which is also what a limit
// text without an algorithm means. A pointer to one of them is none of them:
// [Limit.Validate] refuses it. Package algo states for each the most units it admits
// in any span of time; docs/algorithms.md draws them.
type Algorithm interface {
	// String returns the name used in limit texts and configuration, without the
	// options.
	String() string
	algorithm()
}

// TokenBucket lets an idle key spend Burst at once and then Quota per
// Window, spread evenly. At most Burst + Quota in any Window. It is the
// generic cell rate algorithm of ITU-T I.371.
type TokenBucket struct {
	Refill Refill // continuous, by interval, or aligned to the clock
	// InitialDeficit is how many units of Burst every key lacks when the rule starts.
	// They are earned from then on.
	InitialDeficit int64

	// NextWaits lets a take cost more than is there: it passes if nothing is owed above
	// Burst, and may owe up to Debt above it. A take that comes next waits until that
	// is paid. Guava's RateLimiter is one.
	NextWaits bool

	// WarmUp, if not zero, makes a bucket that refills continuously slower for
	// a cold key: whole µs, 1 µs to 1 h. A key is cold that was never
	// seen, or has owed nothing for a WarmUp. Its units last up to three times
	// Window/Quota, and that alone once it has had as many as a warm key has in half
	// a WarmUp; while it owes nothing it grows cold again. What that takes longer is
	// waited for by the next take. No more is admitted than without. Guava's
	// SmoothWarmingUp is one.
	WarmUp time.Duration

	// Credit is, with continuous refill, how many units above Burst a key may be given:
	// see [Limiter.Add]. They are spent first, and do not come back. Zero means none.
	Credit int64
	// CreditFor is how long credit lasts since the last add that gave some: whole
	// µs, 1 µs to MaxWindow. It has no default and goes with Credit alone.
	CreditFor time.Duration
}

// LeakyBucket sends units out no faster than one per Window/Quota: what
// arrives early waits its turn, up to Burst units deep.
type LeakyBucket struct {
	// DelayAfter is how many units of a burst pass without delay. Zero means 1: every
	// further unit waits its turn (a queue). Burst means that none waits (a meter).
	DelayAfter int64
}

// FixedWindow counts up to Quota in each window. Across the edge of two
// windows it admits up to 2·Quota within one Window.
type FixedWindow struct {
	Anchor    Anchor       // on the clock or on the first request
	Calendar  Calendar     // day, week, month or year of Zone
	Zone      string       // of a Calendar: IANA time zone; empty means UTC
	WeekStart time.Weekday // of a week: its first day; zero is Sunday, as in package time
	From      Moment       // of a Calendar: when in its day, week, month or year a window begins; zero is its first instant
	// InitialDeficit is how many units of Quota every key lacks in the window in which
	// the rule starts. It does not go with OnFirst.
	InitialDeficit int64
}

// SlidingLog remembers every admitted unit's instant: never more than
// Quota in any Window, exactly, in memory that grows with Quota.
type SlidingLog struct{}

// SlidingCounter weighs the previous window by how much of it is still in
// sight: small and common, but up to 2·Quota within one Window, one less if
// Strict, unless Conservative.
type SlidingCounter struct {
	SubWindows   int  // parts of the window; zero means 1; must divide Window
	Conservative bool // count the part that is half in sight whole: never over Quota
	Whole        bool // count SubWindows whole, the running one included, and no part of one; needs 2 or more
	Strict       bool // round the weighed part up, not down: 2·Quota-1 at most, less of a small Quota
	PreFilled    bool // the rule starts as if every key had used Quota in the window before
}

// SlidingHistogram is a sliding log whose old entries are merged: never
// more than Quota in any Window, in small memory. See Datar, Gionis, Indyk
// and Motwani, "Maintaining stream statistics over sliding windows", 2002.
type SlidingHistogram struct {
	Precision int // k, 3 to 1024, for an error of 1/(k-1) of the quota; zero means 27
}

// Block counts denials, not units: a key that the limits beside it deny Quota
// times within a Window is denied for a time, whatever it asks for. It
// stands in a [Plan] beside at least one limit of another algorithm.
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

// The units. They change no decision, only how a limit is written and shown.
const (
	Requests Unit = iota
	Bytes
	units
)

var unitNames = [...]string{Requests: "requests", Bytes: "bytes"}

// String returns "requests" or "bytes".
func (u Unit) String() string { return nameOf(u, unitNames[:], "Unit") }

// Calendar makes a fixed window follow the calendar of a time zone in place of
// a fixed length. The zero value, [NoCalendar], does not.
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

// nominal returns the window's usual length: 24 h for a day, 31 days for a
// month, 366 for a year. It is what a calendar limit's Window holds. NoCalendar
// has none: 0.
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
	// 1970-01-01 UTC: of a minute, whenever one starts.
	Aligned
	refills
)

// Anchor is where a fixed window starts. The zero value is [OnClock].
type Anchor uint8

// The anchors.
const (
	// OnClock aligns windows to multiples of Window since 1970-01-01 UTC: a
	// minute's window starts with the minute.
	OnClock Anchor = iota
	// OnFirst opens a window at a key's first request; the next window opens
	// at the first request after it ended.
	OnFirst
	anchors
)
