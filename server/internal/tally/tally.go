// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package tally counts the outcomes of requests by the rules of a policy, and those that
// candidates and shadow rules would have had. Its size is bounded by the policy: no name comes
// from a client.
package tally

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/history"
	"github.com/sluicegate/sluice/server/internal/outcome"
)

// MostLists is the most levels for which keys are kept.
const MostLists = 1024

// Tally counts outcomes. The zero Tally is ready to use. It is safe for concurrent use.
type Tally struct {
	current atomic.Pointer[index]
	mu      sync.Mutex // of Follow

	total   Rule // of all requests
	refused causes
	ticks   sync.Mutex
	past    *history.History // of total
	half    int64            // half hour of the last Tick, since 1970
	room    room             // for sketches
}

// Rule holds the outcomes of requests under a rule. Each request is in one of the first eight,
// the verdicts. For a shadow rule or a candidate, WouldDeny counts the denials it would have
// made among Evaluated.
type Rule struct {
	Allowed, Warned, Delayed, Denied       atomic.Uint64
	Refused, Failed, FailedOpen, Abandoned atomic.Uint64
	Evaluated, WouldDeny                   atomic.Uint64
	Unlimited                              atomic.Uint64 // of Allowed
	Degraded                               atomic.Uint64 // of all: decided without the store
	UpstreamErrors                         atomic.Uint64 // of those that passed

	// Rescued counts, for a candidate, the denials of its rule that it would have allowed.
	Rescued atomic.Uint64
	// Unstated counts responses without the header field of their cost.
	Unstated atomic.Uint64
	silent   atomic.Bool  // the last response had none
	told     atomic.Int64 // time of the last log line, since 1970
	mark     mark         // of Rescued or, for a rule, of Unstated; guarded by Tally.ticks
}

// counted is a rule with its candidates and levels, found by name when a new policy follows.
type counted struct {
	*Rule
	recent     *recent
	priced     bool                // its cost is in a header field of the response
	candidates map[string]*Rule    // by LEVEL+NAME; nil without any
	levels     map[string]*topKeys // of denied keys; nil without any
}

type index struct {
	names []string // in the order of the policy
	rules map[string]*counted
}

// noRules is the index before the first call of Follow.
var noRules = new(index)

// index returns the current index.
func (t *Tally) index() *index { return cmp.Or(t.current.Load(), noRules) }

// Follow makes t count under the names of p. Counts under names that p shares continue; the
// others are dropped. It may be called while requests are counted.
func (t *Tally) Follow(p *policy.Policy) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.index().rules
	next := &index{names: make([]string, 0, len(p.Rules())), rules: make(map[string]*counted, len(p.Rules()))}
	lists := 0
	for i := range len(p.Rules()) {
		r := &p.Rules()[i]
		was := old[r.Name]
		if was == nil {
			was = &counted{Rule: new(Rule), recent: new(recent)}
		}
		c := &counted{Rule: was.Rule, recent: was.recent, priced: r.Cost.Of == policy.ResponseHeader}
		for j := range r.Levels {
			l := &r.Levels[j]
			for k := range l.Candidates {
				keep(&c.candidates, was.candidates, candidateName(l, &l.Candidates[k]), func() *Rule { return new(Rule) })
			}
			if lists++; lists <= MostLists {
				keep(&c.levels, was.levels, l.Name, func() *topKeys { return newTopKeys(outcome.Places) })
			}
		}
		next.rules[r.Name] = c
		next.names = append(next.names, r.Name)
	}
	t.current.Store(next)
	t.room.count(next)
}

// keep sets m[name] to old's value, or to a new one.
func keep[V any](m *map[string]V, old map[string]V, name string, fresh func() V) {
	v, ok := old[name]
	if !ok {
		v = fresh()
	}
	if *m == nil {
		*m = make(map[string]V)
	}
	(*m)[name] = v
}

func candidateName(l *policy.Level, c *policy.Candidate) string { return l.Name + "+" + c.Name }

// of returns the counter of a verdict.
func (r *Rule) of(k evaluate.VerdictKind) *atomic.Uint64 {
	switch k {
	case evaluate.Allowed:
		return &r.Allowed
	case evaluate.Warned:
		return &r.Warned
	case evaluate.Delayed:
		return &r.Delayed
	case evaluate.Denied:
		return &r.Denied
	case evaluate.Refused:
		return &r.Refused
	case evaluate.Abandoned:
		return &r.Abandoned
	case evaluate.FailedOpen:
		return &r.FailedOpen
	default:
		return &r.Failed
	}
}

// Count counts a request by its verdict: in the total, and a denied or refused one for the
// rule that decided, any other for every rule that applied. Cause is the status and the text
// of a refusal; there must be few texts.
func (t *Tally) Count(e *evaluate.Event, cause Cause) {
	t.total.of(e.Verdict).Add(1)
	if e.Verdict == evaluate.Refused {
		t.refused.add(cause)
	}
	in, v := t.index(), e.Evaluated
	if v == nil {
		return
	}
	if t.sides(in, v) {
		t.total.WouldDeny.Add(1)
	}
	degraded := v.Decision.Degraded || v.Err != nil
	if degraded {
		t.total.Degraded.Add(1)
	}
	t.charged(in, v)
	switch e.Verdict {
	case evaluate.Abandoned:
	case evaluate.Refused:
		if v.Refused == nil {
			return
		}
		if c := in.rules[v.Refused.Rule]; c != nil {
			c.Refused.Add(1)
		}
	case evaluate.Denied:
		if v.InFlight != nil {
			t.denied(in, v.InFlight.Rule, v.InFlight.Level, v.InFlight.Key)
		} else if o, bound := v.Binding(nil); bound {
			t.denied(in, o.Rule, o.Level, o.Key)
			in.rescued(v, o.Rule)
		}
	default:
		in.each(v, func(c *counted, o *evaluate.Outcome) {
			c.of(under(e, o)).Add(1)
			if degraded {
				c.Degraded.Add(1)
			}
		})
		if e.Verdict.Passes() {
			in.unlimited(v)
		}
	}
}

// under returns the verdict for the rule of one outcome: warned if that rule has warned,
// failed open if it has not decided.
func under(e *evaluate.Event, o *evaluate.Outcome) evaluate.VerdictKind {
	undecided := o.Err != nil || o.Degraded && o.Rule.Failure == sluice.FailOpen
	switch {
	case e.Verdict == evaluate.FailedClosed || undecided:
		return e.Verdict
	case e.Verdict == evaluate.Warned || e.Verdict == evaluate.FailedOpen:
		for w := range e.Evaluated.Warnings() {
			if w.Rule == o.Rule {
				return evaluate.Warned
			}
		}
	}
	if e.Decision.Delay > 0 {
		return evaluate.Delayed
	}
	return evaluate.Allowed
}

// End counts an error of the upstream: 5xx, or an incomplete response. A client that left or a
// program that ends is no error.
func (t *Tally) End(status int, err error) {
	if status >= http.StatusInternalServerError || err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, http.ErrServerClosed) {
		t.total.UpstreamErrors.Add(1)
	}
}

// Stated records whether a response had the header field of its cost under a rule. It reports
// whether to log that: for the first response without the field, and again once the field has
// returned in between, at most once a minute.
func (t *Tally) Stated(rule string, has bool, now time.Time) (tell bool) {
	c := t.index().rules[rule]
	if c == nil {
		return false
	}
	if has {
		if c.silent.Load() {
			c.silent.Store(false)
		}
		return false
	}
	c.Unstated.Add(1)
	last := c.told.Load()
	return !c.silent.Swap(true) && now.UnixNano()-last >= int64(time.Minute) && c.told.CompareAndSwap(last, now.UnixNano())
}

// unlimited counts a request once for each rule that shapes it or has no limits for it. The
// latter counts as allowed if no other level of the rule limits it.
func (in *index) unlimited(v *evaluate.Verdict) {
	var last *policy.Rule
	for _, s := range v.Shapes {
		if c := in.rules[s.Rule.Name]; c != nil && s.Rule != last {
			c.Allowed.Add(1)
		}
		last = s.Rule // the levels of a rule are adjacent
	}
	last = nil
	for _, l := range v.Unlimited {
		r := l.Rule
		c := in.rules[r.Name]
		if c == nil || r == last {
			continue
		}
		last = r
		c.Unlimited.Add(1)
		if !limited(v, r) {
			c.Allowed.Add(1)
		}
	}
}

// limited reports whether a level of a rule limits the request.
func limited(v *evaluate.Verdict, r *policy.Rule) bool {
	for o := range v.Outcomes() {
		if o.Rule == r {
			return true
		}
	}
	return slices.ContainsFunc(v.Shapes, func(s evaluate.Shape) bool { return s.Rule == r })
}

// each calls f once for each active rule, with one of its outcomes, preferably one that the
// store has not decided.
func (in *index) each(v *evaluate.Verdict, f func(*counted, *evaluate.Outcome)) {
	var of evaluate.Outcome
	call := func() {
		if of.Rule == nil {
			return
		}
		if c := in.rules[of.Rule.Name]; c != nil {
			f(c, &of)
		}
	}
	for o := range v.Outcomes() {
		if o.Rule != of.Rule { // the outcomes of a rule are adjacent
			call()
			of = o
		} else if o.Err != nil || o.Degraded {
			of = o
		}
	}
	call()
}

func (t *Tally) denied(in *index, r *policy.Rule, l *policy.Level, key string) {
	c := in.rules[r.Name]
	if c == nil {
		return
	}
	c.Denied.Add(1)
	if list := c.levels[l.Name]; list != nil {
		list.add(key)
	}
	if keys := t.room.keysOf(c.recent); keys != nil {
		keys.Denied(keys.hash(l, key))
	}
}

// sides counts candidates and shadow rules, and reports whether any would have denied.
func (t *Tally) sides(in *index, v *evaluate.Verdict) (wouldDeny bool) {
	for s := range v.Trials() {
		c := in.rules[s.Rule.Name]
		if c == nil {
			continue
		}
		of := c.Rule
		if s.Candidate == nil {
			t.shadowKey(c, &s)
		} else {
			if of = c.candidates[candidateName(s.Level, s.Candidate)]; of == nil {
				continue
			}
		}
		switch {
		case s.Err != nil:
			of.Failed.Add(1)
		case s.Allowed:
			of.Evaluated.Add(1)
		default:
			of.Evaluated.Add(1)
			of.WouldDeny.Add(1)
			wouldDeny = true
		}
	}
	return wouldDeny
}
