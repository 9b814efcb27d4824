// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"slices"
	"time"
)

// Algorithm is the way a [Limit] counts. The zero value is [TokenBucket], which
// is also what a limit text without an algorithm means.
type Algorithm uint8

// The algorithms. Package algo states for each the most units it admits in any
// span of time; docs/algorithms.md draws them.
const (
	// TokenBucket lets an idle key spend Burst at once and then Quota per
	// Window, spread evenly. At most Burst + Quota in any Window. It is the
	// generic cell rate algorithm of ITU-T I.371.
	TokenBucket Algorithm = iota
	// LeakyBucket sends units out no faster than one per Window/Quota: what
	// arrives early waits its turn (see DelayAfter), up to Burst units deep.
	LeakyBucket
	// FixedWindow counts up to Quota in each window. Across the edge of two
	// windows it admits up to 2·Quota within one Window.
	FixedWindow
	// SlidingLog remembers every admitted unit's instant: never more than
	// Quota in any Window, exactly, in memory that grows with Quota.
	SlidingLog
	// SlidingCounter weighs the previous window by how much of it is still in
	// sight: small and common, but up to 2·Quota within one Window, one less if
	// Strict, unless Conservative.
	SlidingCounter
	// SlidingHistogram is a sliding log whose old entries are merged: never
	// more than Quota in any Window, in small memory. See Datar, Gionis, Indyk
	// and Motwani, "Maintaining stream statistics over sliding windows", 2002.
	SlidingHistogram
	// Block counts denials, not units: a key that the limits beside it deny Quota
	// times within a Window is denied for BlockFor, whatever it asks for. It
	// stands in a [Plan] beside at least one limit of another algorithm.
	Block
	algorithms // how many there are
)

var algorithmNames = [...]string{
	TokenBucket:      "token-bucket",
	LeakyBucket:      "leaky-bucket",
	FixedWindow:      "fixed-window",
	SlidingLog:       "sliding-log",
	SlidingCounter:   "sliding-counter",
	SlidingHistogram: "sliding-histogram",
	Block:            "block",
}

// String returns the name used in limit texts and configuration.
func (a Algorithm) String() string { return nameOf(a, algorithmNames[:], "Algorithm") }

// parseAlgorithm returns the algorithm of that name; "gcra" is another name of
// token-bucket.
func parseAlgorithm(name string) (a Algorithm, ok bool) {
	if name == "gcra" {
		return TokenBucket, true
	}
	i := slices.Index(algorithmNames[:], name)
	return Algorithm(max(i, 0)), i >= 0
}

func (a Algorithm) bucket() bool { return a == TokenBucket || a == LeakyBucket }

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
