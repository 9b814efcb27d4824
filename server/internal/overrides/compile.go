// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package overrides

import (
	"errors"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/keys"
)

// Lost is an override that matches none of the present rules. They may have
// changed since it was made, and may change back.
type Lost struct {
	Stored
	Problem string // why it does not match
	// Fits reports whether the rules have the key, so that the override can be made again.
	Fits bool
}

// Active returns the table of the overrides by which requests are decided.
func (l *List) Active() *evaluate.Overrides { return &l.active }

// Follow applies the overrides to the rules of another policy, which decide once swap has
// returned. It compiles the overrides before, so that few requests are decided by the new
// rules and the old overrides. An override that does not fit the rules is inactive and stays
// in the list; lost is called with all of these, at once and at each later change. Overrides
// that have expired at the time now are left out.
func (l *List) Follow(p *policy.Policy, now time.Time, swap func(), lost func([]Lost)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.policy, l.onLost = p, lost
	clear(l.problems)
	puts, misfits := l.compile(l.current(now))
	swap()
	l.active.Put(now, puts...)
	l.onLost(misfits)
}

// Problem returns why the rules leave an override out, or "" if they do not.
func (l *List) Problem(o *Stored) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.problems[o.ID()]
}

// activate compiles changed overrides and puts them into the table. Each has the present limits
// of its key, or is Removed.
func (l *List) activate(changed []Stored, now time.Time) {
	if l.policy == nil {
		return
	}
	puts, lost := l.compile(changed)
	l.active.Put(now, puts...)
	l.onLost(lost)
}

// compile returns the changes of the table, and the overrides that do not fit the rules.
func (l *List) compile(changed []Stored) (puts []policy.CompiledOverride, lost []Lost) {
	puts = make([]policy.CompiledOverride, len(changed))
	for i := range changed {
		o := &changed[i]
		id := o.ID()
		puts[i] = l.compiled[id] // ends the override before it
		puts[i].Set = nil
		delete(l.problems, id)
		delete(l.compiled, id)
		if o.Removed {
			continue
		}
		c, problem := compileOverride(l.policy, o)
		if problem != "" {
			l.problems[id] = problem
			lost = append(lost, Lost{*o, problem, !Unused(l.policy, *o)})
			continue
		}
		l.compiled[id], puts[i] = c, c
	}
	return puts, lost
}

// Of returns the override that is active for a key, and its limits; nil if there is none.
func (l *List) Of(t *keys.Target, now time.Time) (*policy.Override, *policy.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := Stored{Rule: t.Rule.Name, Level: t.Level.Name, Override: policy.Override{Key: t.Values}}
	k, s := l.inForce(o.ID(), now), l.compiled[o.ID()].Set
	if k == nil || s == nil {
		return nil, nil
	}
	return &k.Override, s
}

// compileOverride compiles an override for the rules of a policy, or returns the reason why it
// does not fit them.
func compileOverride(p *policy.Policy, o *Stored) (c policy.CompiledOverride, problem string) {
	const unfit = "its limits do not fit the rule: "
	l := keys.Level(p, o.Rule, o.Level)
	switch {
	case l == nil:
		return c, "the configuration has no such rule or level"
	case !keys.Has(l, o.Key):
		return c, "the rule has no such key"
	case len(o.Limits) == 0:
		return c, unfit + "no limit; write one, such as 100/min"
	}
	for _, limit := range o.Limits {
		if problem := l.Rule.NeverAdmits(limit); problem != "" {
			return c, unfit + problem
		}
	}
	c, err := p.CompileOverride(o.Rule, o.Level, o.Override)
	if faults, ok := errors.AsType[policy.RuleErrors](err); ok {
		return c, unfit + faults[0].Problem
	}
	return c, ""
}

// Fits returns an error if an override does not match a policy.
func Fits(p *policy.Policy, o Stored) error {
	if _, problem := compileOverride(p, &o); problem != "" {
		return errors.New("override: " + problem)
	}
	return nil
}

// ParseLimits reads the texts of limits that replace those of a level. They inherit from
// the level's limits, see [sluice.ParseLimit]. The error joins all faults.
func ParseLimits(l *policy.Level, texts []string) (limits []policy.Limit, err error) {
	var like []sluice.Limit
	for _, limit := range l.Limits {
		like = append(like, limit.Limit)
	}
	var faults []error
	for _, text := range texts {
		limit, err := sluice.ParseLimit(text, like...)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		limits = append(limits, policy.Limit{Limit: limit})
	}
	return limits, errors.Join(faults...)
}

// Unused reports whether the rules of a policy do not have the key of an override.
func Unused(p *policy.Policy, o Stored) bool {
	l := keys.Level(p, o.Rule, o.Level)
	return l == nil || !keys.Has(l, o.Key)
}
