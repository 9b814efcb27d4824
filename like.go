// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"slices"
	"strings"
)

// inherit takes what the text does not name from the limits in whose place this
// one stands.
func (p *parser) inherit() error {
	l := &p.limit
	like := slices.DeleteFunc(slices.Clone(p.like), func(o Limit) bool {
		return o.Unit != l.Unit || (o.Algorithm == Block) != (l.Algorithm == Block)
	})
	same := slices.DeleteFunc(slices.Clone(like), func(o Limit) bool { return o.Filled().Name != l.Name })
	if len(same) == 0 {
		same = slices.DeleteFunc(slices.Clone(like), func(o Limit) bool { return !p.sameWindow(o) })
		if len(same) == 1 && l.Name == "" {
			l.Name = same[0].Name
		}
	}
	if len(same) > 0 {
		like = same
	}
	if len(like) == 0 || p.has("algorithm") || p.has("calendar") {
		return nil
	}
	algorithms := make([]Algorithm, len(like))
	for i := range like {
		algorithms[i] = like[i].Algorithm
	}
	slices.Sort(algorithms)
	algorithms = slices.Compact(algorithms)
	if len(algorithms) > 1 {
		return p.fail(0, "replaces limits counted by %s; name the algorithm of this one, such as %q",
			join(algorithms, " and "), strings.TrimSpace(p.text)+" "+algorithms[0].String())
	}
	p.inherited = true
	l.Algorithm = algorithms[0]
	if len(like) == 1 {
		p.inheritOptions(like[0])
	}
	return nil
}

// sameWindow reports whether a limit has the window that was read.
func (p *parser) sameWindow(o Limit) bool {
	if p.limit.Window < 0 { // a month or a year
		return o.Calendar == p.limit.Calendar
	}
	return o.Filled().Window == p.limit.Window
}

// inheritOptions takes the options of a limit of the same algorithm that the
// text does not name, each of them if it fits.
func (p *parser) inheritOptions(of Limit) {
	l := &p.limit
	keep := func(kind string, set func(*Limit)) {
		with := *l
		if set(&with); !p.has(kind) && with.Validate() == nil {
			*l = with
		}
	}
	if p.has("credit") && !p.has("credit-for") { // first: without it nothing is valid
		l.CreditFor = of.CreditFor
	}
	switch l.Algorithm {
	case TokenBucket:
		keep("refill", func(l *Limit) { l.Refill = of.Refill })
	case LeakyBucket:
		keep("burst", func(l *Limit) { l.Burst = of.Burst })
		if !p.has("delay") && of.DelayAfter == of.Full() {
			p.nodelay = true
		} else {
			keep("delay", func(l *Limit) { l.DelayAfter = min(of.DelayAfter, l.Full()) })
		}
	case FixedWindow:
		if calendar, ok := p.calendarWindow(); ok && of.Calendar != NoCalendar {
			keep("anchor", func(l *Limit) { l.Calendar, l.Zone, l.Window = calendar, of.Zone, 0 })
		}
		if l.Calendar == of.Calendar {
			keep("from", func(l *Limit) { l.From = of.From })
		}
		if l.Calendar == Week && of.Calendar == Week {
			keep("week-starts", func(l *Limit) { l.WeekStart = of.WeekStart })
		}
		keep("anchor", func(l *Limit) { l.Anchor = of.Anchor })
	case SlidingLog: // has no options of its own
	case SlidingCounter:
		keep("sub-windows", func(l *Limit) { l.SubWindows = of.SubWindows })
		keep("pre-filled", func(l *Limit) { l.PreFilled = of.PreFilled })
		if !p.has("conservative") && !p.has("strict") && !p.has("whole") {
			keep("", func(l *Limit) { l.Conservative, l.Strict, l.Whole = of.Conservative, of.Strict, of.Whole })
		}
	case SlidingHistogram:
		keep("precision", func(l *Limit) { l.Precision = of.Precision })
	case Block: // is never inherited
	}
	if of.InitialDeficit > 0 {
		keep("initial", func(l *Limit) { l.InitialDeficit = max(0, l.idleUnits()-(of.idleUnits()-of.InitialDeficit)) })
	}
	keep("count-denied", func(l *Limit) { l.CountDenied = of.CountDenied })
	keep("debt", func(l *Limit) { l.Debt = of.Debt })
	if l.Algorithm == TokenBucket && !p.has("initial") { // which does not go with a warm-up
		keep("warm-up", func(l *Limit) { l.WarmUp = of.WarmUp })
	}
	if l.Algorithm == TokenBucket {
		keep("next-waits", func(l *Limit) { l.NextWaits = of.NextWaits })
		if !p.has("credit-for") && !p.has("initial") {
			keep("credit", func(l *Limit) { l.Credit, l.CreditFor = of.Credit, of.CreditFor })
		}
	}
}

// stray says that an option does not belong to the algorithm.
func (p *parser) stray(o option, of []Algorithm) error {
	problem := fmt.Sprintf("%s belongs to %s, ", o.word, join(of, " and "))
	if p.inherited {
		problem += fmt.Sprintf("and the limit in whose place this one stands is counted by %v; leave it out, or write %v", p.limit.Algorithm, of[0])
	} else {
		problem += fmt.Sprintf("not to %v; leave it out or write that algorithm", p.limit.Algorithm)
	}
	return p.fail(o.at, "%s", problem)
}
