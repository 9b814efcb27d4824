// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/internal/compiled"
)

// inherit takes the options that the text does not name from the limits that this one
// replaces.
func (p *parser) inherit() error {
	l := &p.limit
	like := slices.DeleteFunc(slices.Clone(p.like), func(o Limit) bool {
		_, block := o.Algorithm.(Block)
		return o.Unit != l.Unit || block != (p.Kind == compiled.Block)
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
	of := make([]options, len(like))
	kinds := make([]compiled.Kind, len(like))
	for i := range like {
		of[i], _ = optionsOf(like[i].Algorithm)
		kinds[i] = of[i].Kind
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	if len(kinds) > 1 {
		return p.fail(0, "replaces limits counted by %s; name the algorithm of this one, such as %q",
			join(kinds, " and "), strings.TrimSpace(p.text)+" "+kinds[0].String())
	}
	p.inherited = true
	p.Kind = kinds[0]
	if len(like) == 1 {
		p.inheritOptions(like[0], &of[0])
	}
	return nil
}

// sameWindow reports whether a limit has the window of the text.
func (p *parser) sameWindow(o Limit) bool {
	if p.limit.Window < 0 { // a month or a year
		w, _ := o.Algorithm.(FixedWindow)
		return w.Calendar == p.Calendar
	}
	return o.Filled().Window == p.limit.Window
}

// inheritOptions takes the options that the text does not name from a limit of the same
// algorithm, as far as the result is valid.
func (p *parser) inheritOptions(l Limit, of *options) {
	keep := func(kind string, set func()) {
		limit, options := p.limit, p.options
		if set(); p.has(kind) || p.made().Validate() != nil {
			p.limit, p.options = limit, options
		}
	}
	if p.has("credit") && !p.has("credit-for") { // first: credit without it is invalid
		p.CreditFor = of.CreditFor
	}
	switch p.Kind {
	case compiled.TokenBucket:
		keep("refill", func() { p.Refill = of.Refill })
	case compiled.LeakyBucket:
		keep("burst", func() { p.limit.Burst = l.Burst })
		if !p.has("delay") && of.DelayAfter == l.Full() {
			p.nodelay = true
		} else {
			keep("delay", func() { p.DelayAfter = min(of.DelayAfter, p.made().Full()) })
		}
	case compiled.FixedWindow:
		if calendar, ok := p.calendarWindow(); ok && of.Calendar != NoCalendar {
			keep("anchor", func() { p.Calendar, p.Zone, p.limit.Window = calendar, of.Zone, 0 })
		}
		if p.Calendar == of.Calendar {
			keep("from", func() { p.From = of.From })
		}
		if p.Calendar == Week && of.Calendar == Week {
			keep("week-starts", func() { p.WeekStart = of.WeekStart })
		}
		keep("anchor", func() { p.OnFirst = of.OnFirst })
	case compiled.SlidingCounter:
		keep("sub-windows", func() { p.SubWindows = of.SubWindows })
		keep("pre-filled", func() { p.PreFilled = of.PreFilled })
		if !p.has("conservative") && !p.has("strict") && !p.has("whole") {
			keep("", func() { p.Conservative, p.Strict, p.Whole = of.Conservative, of.Strict, of.Whole })
		}
	case compiled.SlidingLog, compiled.Block: // have no options to inherit
	case compiled.SlidingHistogram:
		keep("precision", func() { p.Precision = of.Precision })
	}
	if of.InitialDeficit > 0 {
		keep("initial", func() {
			p.InitialDeficit = max(0, p.made().idleUnits()-(l.idleUnits()-of.InitialDeficit))
		})
	}
	keep("count-denied", func() { p.limit.CountDenied = l.CountDenied })
	if p.Kind == compiled.TokenBucket && !p.has("initial") { // initial excludes a warm-up
		keep("warm-up", func() { p.WarmUp = of.WarmUp }) // before debt: it makes the default burst 1
	}
	keep("debt", func() { p.limit.Debt = l.Debt })
	if p.Kind == compiled.TokenBucket {
		keep("next-waits", func() { p.NextWaits = of.NextWaits })
		if !p.has("credit-for") && !p.has("initial") {
			keep("credit", func() { p.Credit, p.CreditFor = of.Credit, of.CreditFor })
		}
	}
}

// stray returns the error for an option that does not belong to the algorithm.
func (p *parser) stray(o option, of []compiled.Kind) error {
	problem := fmt.Sprintf("%s belongs to %s, ", o.word, join(of, " and "))
	if p.inherited {
		problem += fmt.Sprintf("and the limit in whose place this one stands is counted by %v; leave it out, or write %v", p.Kind, of[0])
	} else {
		problem += fmt.Sprintf("not to %v; leave it out or write that algorithm", p.Kind)
	}
	return p.fail(o.at, "%s", problem)
}
