// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// TextError is a fault in a limit's text.
type TextError struct {
	Text    string // the whole text, or its beginning if it is over-long
	Offset  int    // where in Text, in bytes from 0
	Problem string // what is wrong and what to write instead
}

// Error returns the fault with its place, counted in bytes from 1.
func (e *TextError) Error() string {
	return fmt.Sprintf("sluice: limit %q: column %d: %s", e.Text, e.Offset+1, e.Problem)
}

// MaxTextBytes is the longest limit text that ParseLimit reads.
const MaxTextBytes = 1024

// ParseLimit reads a limit's text, such as "100/min", "10/s burst 20",
// "per-user: 100MB/min sliding-histogram" or "1000/day fixed-window calendar
// Asia/Seoul", and validates it. The text is
//
//	[NAME:] QUOTA/WINDOW [WORD …]
//
// QUOTA is a whole number ("100", "1_000") or a size in bytes ("100MB",
// "64KiB"); a limit on bytes may write its other numbers so too. WINDOW is a
// number and a unit ("min", "1s", "15min", "250ms") or, with "calendar", one
// of day, week, month and year. The words, in any order:
//
//	token-bucket leaky-bucket fixed-window sliding-log sliding-counter
//	sliding-histogram, or gcra       the algorithm; token-bucket if none
//	burst N                          buckets
//	debt N                           any algorithm
//	interval-refill, initial N       token-bucket
//	nodelay, delay-after N           leaky-bucket
//	anchor first                     fixed-window
//	calendar ZONE, week-starts DAY   fixed-window, which calendar implies
//	count-denied                     sliding-log
//	sub-windows N, pre-filled        sliding-counter
//	strict or conservative           sliding-counter
//	precision N                      sliding-histogram
//
// A text that cannot be read is a [*TextError]; one that can but makes no
// limit gives the faults of [Limit.Validate]. [Limit.String] is its inverse.
func ParseLimit(text string) (Limit, error) { return parseLimit(text, nil) }

func parseLimit(text string, like []Limit) (Limit, error) {
	if len(text) > MaxTextBytes {
		return Limit{}, &TextError{strings.ToValidUTF8(text[:32], "") + "…", MaxTextBytes, fmt.Sprintf("longer than %d bytes; a limit is one short line", MaxTextBytes)}
	}
	p := parser{text: text, like: like}
	if err := p.parse(); err != nil {
		return Limit{}, err
	}
	if err := p.limit.Validate(); err != nil {
		return Limit{}, fmt.Errorf("sluice: limit %q: %w", text, err)
	}
	return p.limit, nil
}

// MustParseLimit is [ParseLimit] for a text written in the program: it panics
// where that returns an error.
func MustParseLimit(text string) Limit {
	l, err := ParseLimit(text)
	if err != nil {
		panic(err)
	}
	return l
}

// UnmarshalText reads l as [ParseLimit] does.
func (l *Limit) UnmarshalText(text []byte) error {
	v, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = v
	return nil
}

// MarshalText returns l's text.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns l's text, without what is a default. For a valid l,
// [ParseLimit] gives back an equal Limit, but that a calendar's Window and the
// Zone "UTC" come back empty, which means the same.
func (l Limit) String() string {
	var b strings.Builder
	if l.Name != "" {
		b.WriteString(l.Name + ": ")
	}
	b.WriteString(formatQuota(l.Quota, l.Unit) + "/" + l.formatWindow())
	number := func(word string, n int64) {
		if n != 0 {
			b.WriteString(" " + word + " " + strconv.FormatInt(n, 10))
		}
	}
	flag := func(on bool, word string) {
		if on {
			b.WriteString(" " + word)
		}
	}
	if l.Burst != 0 {
		b.WriteString(" burst " + formatQuota(l.Burst, l.Unit))
	}
	flag(l.Algorithm != TokenBucket, l.Algorithm.String())
	if l.Calendar != NoCalendar {
		b.WriteString(" calendar " + orDefault(l.Zone, "UTC"))
	}
	if l.WeekStart != time.Sunday {
		b.WriteString(" week-starts " + strings.ToLower(l.WeekStart.String()))
	}
	flag(l.Anchor == OnFirst, "anchor first")
	flag(l.Refill == Interval, "interval-refill")
	if l.Withheld != 0 {
		b.WriteString(" initial " + formatQuota(l.Filled().Burst-l.Withheld, l.Unit))
	}
	if l.DelayAfter != 0 && l.DelayAfter == l.Filled().Burst {
		b.WriteString(" nodelay")
	} else {
		number("delay-after", l.DelayAfter)
	}
	flag(l.CountDenied, "count-denied")
	number("sub-windows", int64(l.SubWindows))
	flag(l.Conservative, "conservative")
	flag(l.Strict, "strict")
	flag(l.PreFilled, "pre-filled")
	number("precision", int64(l.Precision))
	if l.Debt != 0 {
		b.WriteString(" debt " + formatQuota(l.Debt, l.Unit))
	}
	return b.String()
}

// sizes are the units of bytes, largest first; the first of a size is the one
// written.
var sizes = []struct {
	name string
	n    int64
}{
	{"TiB", 1 << 40},
	{"TB", 1e12},
	{"GiB", 1 << 30},
	{"GB", 1e9},
	{"MiB", 1 << 20},
	{"MB", 1e6},
	{"KiB", 1 << 10},
	{"KB", 1e3},
	{"kB", 1e3},
	{"B", 1},
}

func formatQuota(n int64, unit Unit) string {
	if unit != Bytes {
		return strconv.FormatInt(n, 10)
	}
	for _, s := range sizes {
		if n != 0 && n%s.n == 0 {
			return strconv.FormatInt(n/s.n, 10) + s.name
		}
	}
	return "0B"
}

// durations are the window's units, longest first; the first of a length is
// the one written.
var durations = []struct {
	name string
	d    time.Duration
}{
	{"week", 7 * 24 * time.Hour},
	{"weeks", 7 * 24 * time.Hour},
	{"w", 7 * 24 * time.Hour},
	{"day", 24 * time.Hour},
	{"days", 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"hour", time.Hour},
	{"hours", time.Hour},
	{"h", time.Hour},
	{"min", time.Minute},
	{"minute", time.Minute},
	{"minutes", time.Minute},
	{"m", time.Minute},
	{"s", time.Second},
	{"sec", time.Second},
	{"second", time.Second},
	{"seconds", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"µs", time.Microsecond},
}

func (l Limit) formatWindow() string {
	if l.Calendar != NoCalendar {
		return l.Calendar.String()
	}
	return formatDuration(l.Window)
}

// formatDuration writes d in the largest unit that leaves it whole.
func formatDuration(d time.Duration) string {
	for _, u := range durations {
		if d >= u.d && d%u.d == 0 {
			if d == u.d {
				return u.name
			}
			return strconv.FormatInt(int64(d/u.d), 10) + u.name
		}
	}
	return d.String()
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
