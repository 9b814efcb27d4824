// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Explain returns the decision that [Decide] would make, and the arithmetic of every limit.
// It changes neither the items nor the data that they refer to.
func Explain(req *sluice.Request, items []Item, now int64) sluice.Explanation {
	now = clamp(now)
	outcomes := make(sluice.Outcomes, len(items))
	asked := *req
	var holds []*Holds
	if holding(req, items) {
		items = slices.Clone(items)
		for i := range items {
			items[i] = items[i].clone()
		}
		holds, asked.Hold = begin(req, items, now).holds, nil
	}
	asked.Outcomes = &outcomes
	e := sluice.Explanation{Limits: make([]sluice.Reason, len(items))}
	decided := make([]Item, len(items))
	seen := make([]Item, len(items))
	for i := range items {
		decided[i], seen[i] = items[i].clone(), items[i].clone()
		seen[i].prepare(now)
		seen[i].see(now)
	}
	e.Decision = Decide(&asked, decided, now)
	for i := range seen {
		x := explainer{req: req, it: &seen[i], before: &items[i], now: now, whole: &e.Decision}
		e.Limits[i] = x.reason(outcomes[i])
		if holds != nil && holds[i].Open > 0 {
			e.Limits[i].Held = holds[i].line(&x)
			e.Limits[i].Lines = slices.Insert(e.Limits[i].Lines, 0, e.Limits[i].Held)
		}
	}
	return e
}

// clone returns a copy of the item with its own states.
func (it *Item) clone() Item {
	c := *it
	c.State.Ring = slices.Clone(it.State.Ring)
	c.Others, c.Holds = slices.Clone(it.Others), it.Holds.clone()
	for i := range c.Others {
		c.Others[i].Ring = slices.Clone(c.Others[i].Ring)
	}
	return c
}

// explainer explains the decision of one limit.
type explainer struct {
	req    *sluice.Request
	it     *Item // as the limit sees it at now
	before *Item // as the store keeps it
	now    int64
	whole  *sluice.Decision // of the request
}

func (x *explainer) reason(o sluice.Outcome) sluice.Reason {
	it := x.it
	r := sluice.Reason{Limit: x.before.Term.Limit, Cost: it.Cost, Outcome: o, Room: it.remaining(counterOf(it.Term), x.now)}
	r.Lines = append(x.history(), x.counts(r.Room)...)
	r.Lines = append(r.Lines, x.outcome(&r))
	r.Changes = x.changes(&r)
	return r
}

// history describes the writers of a state that other limits have written too.
func (x *explainer) history() (lines []string) {
	it := x.it
	if w := it.State.By; w != nil && w.ID != it.Term.ID && !it.State.Zero() && it.on == nil {
		lines = append(lines, fmt.Sprintf("last spent under %v", w.Limit))
	}
	if it.on != nil {
		lines = append(lines, fmt.Sprintf("counts together with %v: the key has states of %d kinds of limit", it.on.Limit, bounds.MaxForms))
	}
	for i := range it.Others {
		if o := &it.Others[i]; !o.Zero() && !blocks(it.Term) {
			lines = append(lines, fmt.Sprintf("what passes counts under %v, too, until %s", o.By.Limit, x.at(o.Idle)))
		}
	}
	return lines
}

// counts describes the units that count now.
func (x *explainer) counts(room int64) []string {
	switch c := counterOf(x.it.Term).(type) {
	case fixedWindow:
		return x.fixed(c)
	case slidingCounter:
		return x.counter(c)
	case slidingLog:
		return x.log(c, room)
	case block:
		return x.block()
	case intervalBucket:
		return x.interval(c)
	default:
		return x.bucket(room)
	}
}

// outcome describes the result for the cost.
func (x *explainer) outcome(r *sluice.Reason) string {
	switch {
	case blocks(x.it.Term):
		return x.blockOutcome(r)
	case r.Allowed && !x.whole.Allowed:
		return fmt.Sprintf("costs %d: fits; another limit denies the request, so nothing is spent", r.Cost)
	case r.Allowed && x.req.Op == sluice.OpPeek:
		return fmt.Sprintf("costs %d: fits", r.Cost)
	case r.Allowed && x.whole.Delay > 0:
		return fmt.Sprintf("costs %d: allowed after %v, at %s; %d left then", r.Cost, x.whole.Delay, x.at(int64(x.whole.Due)), r.Remaining)
	case r.Allowed:
		return fmt.Sprintf("costs %d: allowed, %d left after it", r.Cost, r.Remaining)
	case r.TooLarge:
		return fmt.Sprintf("costs %d: denied for good, as the limit never has more than %d", r.Cost, x.it.Term.Full+credit(x.it.Term, &x.it.State))
	case 0 < r.Room && r.Room < r.Cost:
		return fmt.Sprintf("costs %d, and %d fit: denied; it fits in %v, at %s", r.Cost, r.Room, r.RetryAfter, x.after(r.RetryAfter))
	default:
		return fmt.Sprintf("costs %d: denied; it fits in %v, at %s", r.Cost, r.RetryAfter, x.after(r.RetryAfter))
	}
}

// changes returns the changes with which the limit would allow the cost.
func (x *explainer) changes(r *sluice.Reason) (list []string) {
	if r.Allowed || blocks(x.it.Term) || x.fits(x.before.Term, r.Cost) { // fits in time for a reservation
		return nil
	}
	if r.Room > 0 && r.Room < r.Cost && x.fits(x.it.Term, r.Room) {
		list = append(list, fmt.Sprintf("a cost of %d at most", r.Room))
	}
	l := x.before.Term.Limit
	word, size := "quota", &l.Quota
	if l.Burst > 0 {
		word, size = "burst", &l.Burst
	}
	was := *size
	least := counterOf(x.it.Term).counted(x.it.Term, &x.it.State, x.now) + r.Cost - x.it.Term.Lent
	larger := func(n int64) bool {
		*size = n
		t, err := sluice.CompileLimit("explained", l)
		return err == nil && x.fits(t, r.Cost)
	}
	if least <= was || !larger(least) {
		return list
	}
	for too := was; least-too > 1; { // too is too small
		if n := too + (least-too)/2; larger(n) {
			least = n
		} else {
			too = n
		}
	}
	return append(list, fmt.Sprintf("a %s of %d, in place of %d", word, least, was))
}

// fits reports whether limit t would allow a cost in place of the item's limit.
func (x *explainer) fits(t *sluice.Term, cost int64) bool {
	it := x.before.clone()
	if s := &it.State; s.By == nil && !s.Zero() {
		s.By = it.Term
	}
	it.Term = t
	it.prepare(x.now)
	it.see(x.now)
	r := round{req: x.req, now: x.now}
	wait := r.wait(&it, cost)
	if x.req.Op != sluice.OpReserve {
		return wait == 0
	}
	return wait <= x.req.MaxWait.Microseconds() && it.delayIf(x.now, cost) <= x.req.MaxWait.Microseconds()
}

// at writes an instant, with its day unless it is today.
func (x *explainer) at(micros int64) string {
	at, today := sluice.Instant(micros).Time(), sluice.Instant(x.now).Time()
	if at.YearDay() == today.YearDay() && at.Year() == today.Year() {
		return at.Format("15:04:05.999999 UTC")
	}
	return at.Format("2006-01-02 15:04:05.999999 UTC")
}

func (x *explainer) after(d time.Duration) string { return x.at(x.now + d.Microseconds()) }
