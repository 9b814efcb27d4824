// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// A limit's text is
//
//	[NAME:] QUOTA/WINDOW [WORD …]
//
// QUOTA is a whole number ("100", "1_000") or a size in bytes ("100MB",
// "64KiB"). WINDOW is a number and a unit ("min", "1s", "15min", "250ms") or,
// before "calendar", one of day, week, month and year. The words, in any order:
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
//	sub-windows N, conservative, pre-filled   sliding-counter
//	precision N                      sliding-histogram

// TextError is a fault in a limit's text.
type TextError struct {
	Text    string // the whole text
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
// Asia/Seoul", and validates it. A text that cannot be read is a [*TextError];
// one that can but makes no limit gives the faults of [Limit.Validate].
// [Limit.String] is its inverse.
func ParseLimit(text string) (Limit, error) {
	if len(text) > MaxTextBytes {
		return Limit{}, &TextError{text[:32] + "…", MaxTextBytes, fmt.Sprintf("longer than %d bytes; a limit is one short line", MaxTextBytes)}
	}
	p := parser{text: text}
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
// [ParseLimit] gives back an equal Limit, but that the Zone "UTC" comes back
// empty, which means the same.
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
	flag(l.WeekStart != time.Sunday, "week-starts "+strings.ToLower(l.WeekStart.String()))
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
	flag(l.PreFilled, "pre-filled")
	number("precision", int64(l.Precision))
	if l.Debt != 0 {
		b.WriteString(" debt " + formatQuota(l.Debt, l.Unit))
	}
	return b.String()
}

var sizes = []struct {
	name string
	n    int64
}{
	{"TiB", 1 << 40}, {"TB", 1e12},
	{"GiB", 1 << 30}, {"GB", 1e9},
	{"MiB", 1 << 20}, {"MB", 1e6},
	{"KiB", 1 << 10}, {"KB", 1e3}, {"kB", 1e3},
	{"B", 1},
}

func formatQuota(n int64, unit Unit) string {
	if unit != Bytes {
		return strconv.FormatInt(n, 10)
	}
	best := sizes[len(sizes)-1]
	for _, s := range sizes {
		if n != 0 && n%s.n == 0 && s.n > best.n {
			best = s
		}
	}
	return strconv.FormatInt(n/best.n, 10) + best.name
}

// durations are the window's units, longest first; the first of a length is
// the one written.
var durations = []struct {
	name string
	d    time.Duration
}{
	{"week", 7 * 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour}, {"w", 7 * 24 * time.Hour},
	{"day", 24 * time.Hour}, {"days", 24 * time.Hour}, {"d", 24 * time.Hour},
	{"hour", time.Hour}, {"hours", time.Hour}, {"h", time.Hour},
	{"min", time.Minute}, {"minute", time.Minute}, {"minutes", time.Minute}, {"m", time.Minute},
	{"s", time.Second}, {"sec", time.Second}, {"second", time.Second}, {"seconds", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond}, {"µs", time.Microsecond},
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

// parser reads one limit text, word by word.
type parser struct {
	text  string
	pos   int // of the word being read
	next  int
	limit Limit
	seen  map[string]bool

	initial    int64 // of "initial N", once hasInitial
	hasInitial bool
	nodelay    bool
}

func (p *parser) fail(offset int, format string, args ...any) error {
	return &TextError{p.text, offset, fmt.Sprintf(format, args...)}
}

// word returns the next word, "" at the end.
func (p *parser) word() string {
	for p.next < len(p.text) && isSpace(p.text[p.next]) {
		p.next++
	}
	p.pos = p.next
	for p.next < len(p.text) && !isSpace(p.text[p.next]) {
		p.next++
	}
	return p.text[p.pos:p.next]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func (p *parser) parse() error {
	first := p.word()
	if name, isName := strings.CutSuffix(first, ":"); isName {
		if !validName(name) {
			return p.fail(p.pos, "the name %q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", name)
		}
		p.limit.Name = name
		first = p.word()
	}
	if first == "" {
		return p.fail(p.pos, "no limit; write a quota and a window, such as 100/min")
	}
	if err := p.rate(first); err != nil {
		return err
	}
	p.seen = make(map[string]bool)
	for w := p.word(); w != ""; w = p.word() {
		if err := p.option(w); err != nil {
			return err
		}
	}
	l := &p.limit
	if l.Window < 0 {
		return p.fail(0, "a %v has no fixed length; write calendar and a time zone behind it, or a number of days", l.Calendar)
	}
	if l.Calendar != NoCalendar && !p.seen["algorithm"] {
		l.Algorithm = FixedWindow
	}
	if p.hasInitial {
		if l.Withheld = l.Filled().Burst - p.initial; l.Withheld < 0 {
			return p.fail(0, "initial %d is above the burst of %d", p.initial, l.Filled().Burst)
		}
	}
	if p.nodelay {
		l.DelayAfter = l.Filled().Burst
	}
	return nil
}

// rate reads QUOTA/WINDOW.
func (p *parser) rate(w string) error {
	quota, window, ok := strings.Cut(w, "/")
	if !ok {
		return p.fail(p.pos, "%q is not a quota and a window; write for example 100/min", w)
	}
	var err error
	if p.limit.Quota, p.limit.Unit, err = p.amount(p.pos, quota, true); err != nil {
		return err
	}
	at := p.pos + len(quota) + 1
	digits := 0
	for digits < len(window) && isDigit(window[digits]) {
		digits++
	}
	n, unit := int64(1), window[digits:]
	if digits > 0 {
		if n, err = strconv.ParseInt(window[:digits], 10, 64); err != nil || n == 0 {
			return p.fail(at, "the window %q must be a whole number of at least 1 with a unit", window)
		}
	}
	if digits == 0 && (unit == "month" || unit == "year") {
		p.limit.Calendar = map[string]Calendar{"month": Month, "year": Year}[unit]
		p.limit.Window = -1 // until "calendar" follows
		return nil
	}
	for _, d := range durations {
		if d.name == unit {
			if n > int64(MaxWindow/d.d) {
				return p.fail(at, "the window %q is longer than %v", window, MaxWindow)
			}
			p.limit.Window = time.Duration(n) * d.d
			return nil
		}
	}
	return p.fail(at, "%q is not a window; write a number and one of us, ms, s, min, h, day, week, or month and year with a calendar", window)
}

// amount reads a number of units; sizes makes a size in bytes of it.
func (p *parser) amount(at int, s string, mayChoose bool) (int64, Unit, error) {
	digits := 0
	for digits < len(s) && (isDigit(s[digits]) || digits > 0 && s[digits] == '_') {
		digits++
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(s[:digits], "_", ""), 10, 64)
	if err != nil || n > MaxQuota {
		return 0, 0, p.fail(at, "%q is not a whole number of units from 0 to %d", s, int64(MaxQuota))
	}
	suffix := s[digits:]
	if suffix == "" {
		return n, Requests, nil
	}
	for _, size := range sizes {
		if size.name == suffix {
			if !mayChoose && p.limit.Unit != Bytes {
				return 0, 0, p.fail(at, "%q is in bytes but the quota is not", s)
			}
			if hi, lo := bits.Mul64(uint64(n), uint64(size.n)); hi != 0 || lo > MaxQuota {
				return 0, 0, p.fail(at, "%q is more than %d bytes", s, int64(MaxQuota))
			}
			return n * size.n, Bytes, nil
		}
	}
	return 0, 0, p.fail(at, "%q: %q is not a unit; write a plain number of requests, or bytes as B, KB, MB, GB, TB, KiB, MiB, GiB, TiB", s, suffix)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// option reads one word behind the rate, with its argument.
func (p *parser) option(w string) error {
	at, l := p.pos, &p.limit
	kind := w
	if a, err := ParseAlgorithm(w); err == nil {
		kind = "algorithm"
		l.Algorithm = a
	}
	if p.seen[kind] {
		return p.fail(at, "a second %s; a limit has one", kind)
	}
	p.seen[kind] = true
	number := func(into *int64) (err error) {
		arg := p.word()
		*into, _, err = p.amount(p.pos, arg, false)
		return err
	}
	small := func(into *int) error {
		var n int64
		if err := number(&n); err != nil {
			return err
		}
		if n > math.MaxInt32 {
			return p.fail(p.pos, "%d is too large", n)
		}
		*into = int(n)
		return nil
	}
	switch kind {
	case "algorithm":
		return nil
	case "burst":
		return number(&l.Burst)
	case "debt":
		return number(&l.Debt)
	case "initial":
		p.hasInitial = true
		return number(&p.initial)
	case "interval-refill":
		l.Refill = Interval
	case "nodelay":
		p.nodelay = true
	case "delay-after":
		return number(&l.DelayAfter)
	case "anchor":
		switch arg := p.word(); arg {
		case "first":
			l.Anchor = OnFirst
		case "clock":
		default:
			return p.fail(p.pos, "anchor %q is neither clock nor first", arg)
		}
	case "calendar":
		return p.calendar()
	case "week-starts":
		arg := p.word()
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(arg, d.String()) {
				l.WeekStart = d
				return nil
			}
		}
		return p.fail(p.pos, "%q is not a day of the week, such as monday", arg)
	case "count-denied":
		l.CountDenied = true
	case "sub-windows":
		return small(&l.SubWindows)
	case "conservative":
		l.Conservative = true
	case "pre-filled":
		l.PreFilled = true
	case "precision":
		return small(&l.Precision)
	default:
		return p.fail(at, "unknown word %q; write an algorithm (%s) or an option such as burst 20", w, strings.Join(algorithmNames[:], ", "))
	}
	return nil
}

func (p *parser) calendar() error {
	l := &p.limit
	zone := p.word()
	if zone == "" || zone == "Local" {
		return p.fail(p.pos, "calendar needs a time zone, such as UTC or Asia/Seoul")
	}
	if l.Calendar == NoCalendar {
		for c := Day; c < calendars; c++ {
			if c.Nominal() == l.Window {
				l.Calendar = c
			}
		}
	}
	if l.Calendar == NoCalendar {
		return p.fail(0, "only one day, week, month or year can follow a calendar")
	}
	l.Window = 0
	if zone != "UTC" {
		l.Zone = zone
	}
	return nil
}
