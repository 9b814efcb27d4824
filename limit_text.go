// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// ParseLimit reads a limit's text, such as "100/min", "10/s burst 20",
// "per-user: 100MB/min sliding-histogram" or "1000/day fixed-window calendar
// Asia/Seoul", and validates it. The text is
//
//	[NAME:] QUOTA/WINDOW [WORD …]
//
// QUOTA is a whole number ("100", "1_000"; half a unit a second is "1/2s") or a
// size in bytes ("100MB", "64KiB"); the other numbers of a limit on bytes may be
// sizes too. WINDOW is a number and a unit ("min", "1s", "15min", "250ms") or, with
// "calendar", one of day, week, month and year. The words, in any order:
//
//	token-bucket leaky-bucket fixed-window sliding-log sliding-counter
//	sliding-histogram, or gcra       the algorithm; token-bucket by default
//	burst N                          buckets
//	debt N                           any algorithm
//	interval-refill, aligned-refill  token-bucket
//	initial N                        token-bucket, fixed-window
//	next-waits                       token-bucket with a debt
//	warm-up LENGTH                   token-bucket: a cold key is slower; the burst is 1 by default
//	credit N, credit-for LENGTH      token-bucket: units from adds above burst, and how long they last
//	nodelay, delay-after N           leaky-bucket
//	anchor first                     fixed-window
//	calendar ZONE, week-starts DAY   fixed-window, which calendar implies
//	from WHEN                        calendar: 09:00, 17T09:00 of a month, 04-06 of a year
//	count-denied                     any algorithm
//	sub-windows N, pre-filled        sliding-counter
//	strict, conservative or whole    sliding-counter
//	precision N                      sliding-histogram
//	block LENGTH                     the algorithm: QUOTA denials in a WINDOW block a key for LENGTH
//
// With like, the limit replaces these others, such as the limit of a single key instead of
// its rule's. It inherits from one of them the algorithm and the options that the text does
// not name, as far as they fit. The burst and the initial level of a token bucket follow the
// quota instead (initial 0 stays 0). The limit inherits from the one with the same name, else
// from the one with the same window, with its name, else from the only one. If several match,
// it inherits only their algorithm; if their algorithms differ, the error is a [*TextError]
// that asks for one. A text that names an algorithm or a calendar inherits only the name.
// Limits of another unit are ignored.
//
// The error is a [*TextError] for a text that cannot be read, and that of [Limit.Validate]
// for a limit that is not valid. [Limit.String] is the inverse.
func ParseLimit(text string, like ...Limit) (Limit, error) {
	if len(text) > bounds.MaxTextBytes {
		return Limit{}, &TextError{strings.ToValidUTF8(text[:32], "") + "…", bounds.MaxTextBytes, fmt.Sprintf("longer than %d bytes; a limit is one short line", bounds.MaxTextBytes)}
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
// instead of returning an error.
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

// MarshalText returns l's text, and no error.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// String returns l's text without its defaults. For a valid l, [ParseLimit] returns an
// equal Limit, except that a calendar's Window, the Zone "UTC" and TokenBucket{} come
// back as zero values, which mean the same.
func (l Limit) String() string {
	o, ok := optionsOf(l.Algorithm)
	var b strings.Builder
	b.Grow(64)
	if l.Name != "" {
		b.WriteString(l.Name + ": ")
	}
	b.WriteString(formatQuota(l.Quota, l.Unit))
	b.WriteByte('/')
	b.WriteString(l.formatWindow())
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
	length := func(word string, d time.Duration) {
		if d != 0 {
			b.WriteString(word + " " + formatLength(d))
		}
	}
	if l.Burst != 0 {
		b.WriteString(" burst " + formatQuota(l.Burst, l.Unit))
	}
	flag(!ok || o.Kind != compiled.TokenBucket, algorithmName(l.Algorithm))
	length("", o.For)
	if o.Calendar != NoCalendar {
		b.WriteString(" calendar " + orDefault(o.Zone, "UTC"))
	}
	if o.WeekStart != time.Sunday {
		b.WriteString(" week-starts " + strings.ToLower(o.WeekStart.String()))
	}
	if o.From != (Moment{}) {
		b.WriteString(" from " + o.From.String())
	}
	flag(o.OnFirst, "anchor first")
	flag(o.Refill == Interval, "interval-refill")
	flag(o.Refill == Aligned, "aligned-refill")
	if o.InitialDeficit != 0 {
		b.WriteString(" initial " + formatQuota(l.idleUnits()-o.InitialDeficit, l.Unit))
	}
	flag(o.NextWaits, "next-waits")
	length(" warm-up", o.WarmUp)
	if o.DelayAfter != 0 && o.DelayAfter == l.burst() {
		b.WriteString(" nodelay")
	} else {
		number("delay-after", o.DelayAfter)
	}
	flag(l.CountDenied, "count-denied")
	number("sub-windows", int64(o.SubWindows))
	flag(o.Conservative, "conservative")
	flag(o.Whole, "whole")
	flag(o.Strict, "strict")
	flag(o.PreFilled, "pre-filled")
	number("precision", int64(o.Precision))
	switch {
	case l.Debt == NoDebt:
		b.WriteString(" debt 0")
	case l.Debt != 0:
		b.WriteString(" debt " + formatQuota(l.Debt, l.Unit))
	}
	if o.Credit != 0 {
		b.WriteString(" credit " + formatQuota(o.Credit, l.Unit))
	}
	length(" credit-for", o.CreditFor)
	return b.String()
}

// Must returns v, and panics if err is not nil. It is for limits that are written in
// the program and made when it starts, as with template.Must:
//
//	var logins = sluice.Must(sluice.New(store, "login", sluice.PerMinute(5)))
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
