// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
)

// TextError is a fault in a limit's text.
type TextError struct {
	Text    string // the whole text, or its beginning if it is over-long
	Offset  int    // where in Text, in bytes from 0
	Problem string // the fault, and the text to write instead
}

// Error returns the fault with its place, counted in bytes from 1.
func (e *TextError) Error() string {
	return fmt.Sprintf("sluice: limit %q: column %d: %s", e.Text, e.Offset+1, e.Problem)
}

// parser reads one limit text, word by word.
type parser struct {
	text  string
	pos   int // of the word being read
	next  int
	limit Limit    // without its Algorithm
	seen  []option // every option so far, in order

	options

	like      []Limit // the limits that this one replaces
	inherited bool    // the algorithm comes from like

	windowAt int           // offset of the window
	named    time.Duration // the window, if it is one whole unit: "day", not "24h"

	initial   int64 // N of "initial N"
	initialAt int
	nodelay   bool
}

// option is a word behind the rate. Words that exclude each other have one kind. The kind
// of any other option is its word.
type option struct {
	kind, word string
	at         int
}

// owners holds the algorithms of each option that does not belong to all of them.
var owners = map[string][]compiled.Kind{
	"burst":        {compiled.TokenBucket, compiled.LeakyBucket},
	"refill":       {compiled.TokenBucket},
	"initial":      {compiled.TokenBucket, compiled.FixedWindow},
	"next-waits":   {compiled.TokenBucket},
	"warm-up":      {compiled.TokenBucket},
	"credit":       {compiled.TokenBucket},
	"credit-for":   {compiled.TokenBucket},
	"delay":        {compiled.LeakyBucket},
	"anchor":       {compiled.FixedWindow},
	"calendar":     {compiled.FixedWindow},
	"week-starts":  {compiled.FixedWindow},
	"from":         {compiled.FixedWindow},
	"sub-windows":  {compiled.SlidingCounter},
	"conservative": {compiled.SlidingCounter},
	"whole":        {compiled.SlidingCounter},
	"strict":       {compiled.SlidingCounter},
	"pre-filled":   {compiled.SlidingCounter},
	"precision":    {compiled.SlidingHistogram},
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
		if !bounds.ValidName(name) {
			return p.fail(p.pos, "the name %q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", name)
		}
		p.limit.Name = name
		first = p.word()
	}
	if first == "" {
		return p.fail(p.pos, "no limit; use a quota and a window, such as 100/min")
	}
	if err := p.rate(first); err != nil {
		return err
	}
	for w := p.word(); w != ""; w = p.word() {
		if err := p.option(w); err != nil {
			return err
		}
	}
	return p.finish()
}

// has reports whether an option of that kind was read.
func (p *parser) has(kind string) bool {
	return slices.ContainsFunc(p.seen, func(o option) bool { return o.kind == kind })
}

// made returns the limit as read so far.
func (p *parser) made() Limit {
	l := p.limit
	l.Algorithm = p.assemble()
	return l
}

// finish checks and fills in the options that depend on several words.
func (p *parser) finish() error {
	if err := p.inherit(); err != nil {
		return err
	}
	if p.limit.Window < 0 {
		return p.fail(p.windowAt, "a %v has no fixed length; use calendar and a time zone behind it, or a number of days", p.Calendar)
	}
	if p.has("calendar") && !p.has("algorithm") {
		p.Kind = compiled.FixedWindow
	}
	for i, o := range p.seen {
		if of := owners[o.kind]; of != nil && !slices.Contains(of, p.Kind) {
			return p.stray(o, of)
		}
		if o.kind == "from" {
			if problem := p.From.fault(p.Calendar); problem != "" {
				return p.fail(o.at, "from %v: %s", p.From, problem)
			}
		}
		if o.kind == "week-starts" && p.Calendar != Week {
			return p.fail(o.at, "only a calendar week has a first day; use for example 100/week calendar UTC week-starts monday")
		}
		if other, ok := p.excluded(i); ok {
			return p.fail(o.at, "%s excludes %s; use one of them", o.word, other)
		}
	}
	if p.has("initial") {
		idle := p.made().idleUnits()
		if p.InitialDeficit = idle - p.initial; p.InitialDeficit < 0 {
			return p.fail(p.initialAt, "initial %d is above the %s of %d; use a smaller number", p.initial, idleNames[p.Kind.Bucket()], idle)
		}
	}
	if p.nodelay {
		p.DelayAfter = p.made().burst()
	}
	p.limit = p.made()
	return nil
}

// idleNames name the units of an idle key in a bucket (true) and in any other limit.
var idleNames = map[bool]string{true: "burst", false: "quota"}

// excluded returns an earlier option that the i-th excludes.
func (p *parser) excluded(i int) (word string, ok bool) {
	rules := []string{"conservative", "strict", "whole"}
	kind := p.seen[i].kind
	for _, o := range p.seen[:i] {
		if o.kind != kind && slices.Contains(rules, kind) && slices.Contains(rules, o.kind) {
			return o.kind, true
		}
	}
	return "", false
}

// join returns the items, separated by between.
func join[T fmt.Stringer](items []T, between string) string {
	var b strings.Builder
	for i, item := range items {
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(item.String())
	}
	return b.String()
}

// rate reads QUOTA/WINDOW.
func (p *parser) rate(w string) error {
	quota, window, ok := strings.Cut(w, "/")
	if !ok {
		return p.fail(p.pos, "%q is not a quota and a window; use for example 100/min", w)
	}
	var err error
	if err = p.whole(quota, window); err != nil {
		return err
	}
	if p.limit.Quota, p.limit.Unit, err = p.amount(p.pos, quota, true); err != nil {
		return err
	}
	at := p.pos + len(quota) + 1
	p.windowAt = at
	if window == "month" || window == "year" {
		p.Calendar = map[string]Calendar{"month": Month, "year": Year}[window]
		p.limit.Window = -1 // until "calendar" follows
		return nil
	}
	n, of, err := p.length(at, "window", window)
	if err != nil {
		return err
	}
	if of == 0 {
		return p.fail(at, "%q is not a window; use a number and one of us, ms, s, min, h, day, week, or month and year with a calendar", window)
	}
	if p.limit.Window = time.Duration(n) * of; n == 1 {
		p.named = of
	}
	return nil
}

// option reads one word behind the rate, with its argument.
func (p *parser) option(w string) error {
	at, l := p.pos, &p.limit
	kind := w
	if k, ok := compiled.KindNamed(w); ok {
		kind = "algorithm"
		p.Kind = k
	} else if w == "nodelay" || w == "delay-after" {
		kind = "delay"
	} else if w == "interval-refill" || w == "aligned-refill" {
		kind = "refill"
	}
	if p.has(kind) {
		return p.fail(at, "a second %s; a limit has one", kind)
	}
	p.seen = append(p.seen, option{kind, w, at})
	switch w {
	case "burst":
		return p.number(w, 1, &l.Burst)
	case "debt":
		err := p.number(w, 0, &l.Debt)
		if l.Debt == 0 {
			l.Debt = NoDebt
		}
		return err
	case "credit":
		return p.number(w, 1, &p.Credit)
	case "credit-for":
		return p.lasting("credit-for", "how long credit lasts; use for example 100/min credit 50 credit-for 24h", &p.CreditFor)
	case "initial":
		err := p.number(w, 0, &p.initial)
		p.initialAt = p.pos
		return err
	case "interval-refill":
		p.Refill = Interval
	case "aligned-refill":
		p.Refill = Aligned
	case "next-waits":
		p.NextWaits = true
	case "nodelay":
		p.nodelay = true
	case "count-denied":
		l.CountDenied = true
	case "conservative":
		p.Conservative = true
	case "whole":
		p.Whole = true
	case "strict":
		p.Strict = true
	case "pre-filled":
		p.PreFilled = true
	case "delay-after":
		return p.number(w, 1, &p.DelayAfter)
	case "anchor":
		switch arg := p.word(); arg {
		case "first":
			p.OnFirst = true
		case "clock":
		default:
			return p.fail(p.pos, "anchor %q is neither clock nor first; use one of them", arg)
		}
	case "calendar":
		return p.calendar()
	case "week-starts":
		arg := p.word()
		for d := time.Sunday; d <= time.Saturday; d++ {
			if strings.EqualFold(arg, d.String()) {
				p.WeekStart = d
				return nil
			}
		}
		return p.fail(p.pos, "%q is not a day of the week, such as monday", arg)
	case "from":
		arg := p.word()
		var ok bool
		if p.From, ok = parseMoment(arg); !ok {
			return p.fail(p.pos, "%q is not when a calendar window begins, such as 09:00, 17T09:00 of a month or 04-06 of a year", arg)
		}
	case "sub-windows":
		return p.small(w, 1, bounds.MaxSubWindow, &p.SubWindows)
	case "precision":
		return p.small(w, 3, 1024, &p.Precision)
	case "warm-up":
		return p.lasting("length of a warm-up", "how long to warm up; use for example 2/s warm-up 4s", &p.WarmUp)
	case "block":
		return p.lasting("length of a block", "the length of a block; use for example 20/min block 10min", &p.For)
	default:
		if kind != "algorithm" {
			return p.fail(at, "unknown word %q; use an algorithm (%s) or an option such as burst 20", w, strings.Join(compiled.KindNames[:compiled.Block], ", "))
		}
	}
	return nil
}

func (p *parser) calendar() error {
	zone := p.word()
	if zone == "" || zone == "Local" {
		return p.fail(p.pos, "calendar needs a time zone, such as UTC or Asia/Seoul")
	}
	calendar, ok := p.calendarWindow()
	if !ok {
		return p.fail(p.windowAt, "calendar needs a window of one day, week, month or year, not %s", p.made().formatWindow())
	}
	p.Calendar, p.limit.Window = calendar, 0
	if zone != "UTC" {
		p.Zone = zone
	}
	return nil
}

// calendarWindow returns the window of the text as a calendar window. ok is false unless
// it is written as one: "day", not "24h".
func (p *parser) calendarWindow() (c Calendar, ok bool) {
	switch {
	case p.Calendar != NoCalendar: // month or year
		return p.Calendar, true
	case p.named == Day.nominal():
		return Day, true
	case p.named == Week.nominal():
		return Week, true
	default:
		return NoCalendar, false
	}
}
