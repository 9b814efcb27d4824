// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/sketch"
)

// MostRecent is the most rules with a history.
const MostRecent = 1000

// recent holds the recent outcomes of requests under a rule.
type recent struct {
	past   *history.History // nil before the first count; guarded by Tally.ticks
	before history.Counts   // counts from while there was no room
	keys   atomic.Pointer[hashed]
	full   atomic.Bool // there was no room for keys
}

func (r *Rule) history() history.Counts {
	return history.Counts{
		Allowed: r.Allowed.Load(), Warned: r.Warned.Load(), Delayed: r.Delayed.Load(), Denied: r.Denied.Load(),
		Refused: r.Refused.Load(), Failed: r.Failed.Load(), FailedOpen: r.FailedOpen.Load(), Abandoned: r.Abandoned.Load(),
		WouldDeny: r.WouldDeny.Load(), Degraded: r.Degraded.Load(), UpstreamErrors: r.UpstreamErrors.Load(),
	}
}

// history returns the counts of a rule, with the denials of its candidates.
func (c *counted) history() history.Counts {
	n := c.Rule.history()
	for _, candidate := range c.candidates {
		n.WouldDeny += candidate.WouldDeny.Load()
	}
	return n
}

// Tick records the counts up to now. It must be called at least every second; counts in a
// longer gap belong to the next call. Requests do not wait for it.
func (t *Tally) Tick(now time.Time) {
	t.ticks.Lock()
	defer t.ticks.Unlock()
	half := now.UnixNano() / int64(sketch.HourHalf)
	turns := 0 // half hours that have begun
	if t.half != 0 {
		turns = int(min(max(half-t.half, 0), 2))
	}
	t.half = max(half, t.half)
	t.refused.turn(now)
	if t.past == nil {
		t.past = history.New(history.TotalFine, history.TotalCoarse, history.Counts{})
	}
	t.past.Record(now, t.total.history())
	in, kept := t.index(), 0
	for _, name := range in.names {
		if in.rules[name].recent.past != nil {
			kept++
		}
	}
	for _, name := range in.names {
		c := in.rules[name]
		for range turns {
			c.turn()
		}
		if keys := c.recent.keys.Load(); keys != nil {
			keys.Turn(now)
		}
		n := c.history()
		if c.recent.past == nil {
			if kept >= MostRecent {
				c.recent.before = n
				continue
			}
			if n.IsZero() {
				continue
			}
			kept++
			c.recent.past = history.New(history.RuleFine, history.RuleCoarse, c.recent.before)
		}
		c.recent.past.Record(now, n)
	}
}

// Total returns the outcomes of all requests.
func (t *Tally) Total() history.Counts { return t.total.history() }

// Totals returns the outcomes of requests under each rule, by its name.
func (t *Tally) Totals() map[string]history.Counts {
	in := t.index()
	all := make(map[string]history.Counts, len(in.names))
	for name, c := range in.rules {
		all[name] = c.history()
	}
	return all
}

// Keys returns the keys of a rule in the last hour and the last day, and false if none are
// kept.
func (t *Tally) Keys(rule string) (hour, day *sketch.Sum, ok bool) {
	t.ticks.Lock()
	defer t.ticks.Unlock()
	if c := t.index().rules[rule]; c != nil {
		if keys := c.recent.keys.Load(); keys != nil && keys.Ticking() {
			return keys.Hour(), keys.Day(), true
		}
	}
	return nil, nil, false
}

// Denials returns the recent denials of a rule.
func (t *Tally) Denials(rule string) (d history.Denials) {
	t.ticks.Lock()
	defer t.ticks.Unlock()
	c := t.index().rules[rule]
	if c == nil {
		return d
	}
	d.Unstated = c.Unstated.Load() - c.mark.before
	for _, list := range c.levels {
		keys, total := list.recent()
		d.Keys = append(d.Keys, keys...)
		d.Total += total
	}
	slices.SortFunc(d.Keys, func(a, b uint64) int { return cmp.Compare(b, a) })
	for name, of := range c.candidates {
		if n := of.Rescued.Load() - of.mark.before; n > 0 {
			if d.Rescued == nil {
				d.Rescued = make(map[string]uint64)
			}
			d.Rescued[strings.TrimPrefix(name, "+")] = n
		}
	}
	return d
}

// Bytes returns the approximate memory of histories and sketches.
func (t *Tally) Bytes() int64 {
	t.ticks.Lock()
	defer t.ticks.Unlock()
	n := 0
	if t.past != nil {
		n += t.past.Bytes()
	}
	for _, c := range t.index().rules {
		if c.recent.past != nil {
			n += c.recent.past.Bytes()
		}
		if keys := c.recent.keys.Load(); keys != nil {
			n += keys.Bytes()
		}
	}
	return int64(n)
}

// Past returns the outcomes of requests over time, of all requests if rule is empty. It
// reports false if none are kept, as there was no request yet or there are too many rules.
func (t *Tally) Past(rule string) (fine, coarse history.Series, ok bool) {
	t.ticks.Lock()
	defer t.ticks.Unlock()
	past := t.past
	if rule != "" {
		past = nil
		if c := t.index().rules[rule]; c != nil {
			past = c.recent.past
		}
	}
	if past == nil {
		return fine, coarse, false
	}
	return past.Fine(), past.Coarse(), true
}
