// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// LostOverride is an override that matches none of the present rules. They may have
// changed since it was made, and may change back.
type LostOverride struct {
	StoredOverride
	Problem string // why it does not match
	// Fits reports whether the rules have the key, so that the override can be made
	// anew.
	Fits bool
}

// CompileWith returns a policy of rules, which are valid, with the overrides, which replace
// the rules' own for the same keys. It also returns the overrides that it left out.
func CompileWith(rules []policy.Rule, all []StoredOverride) (*policy.Policy, []LostOverride, error) {
	with, lost := over(rules, all)
	p, err := policy.Compile(with)
	if err == nil {
		return p, lost, nil
	}
	misfits, err := misfits(with, err)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o StoredOverride) bool {
		problem, misfit := misfits[o.ID()]
		if misfit {
			lost = append(lost, LostOverride{o, "its limits do not fit the rule: " + problem, true})
		}
		return misfit
	})
	with, _ = over(rules, all)
	if p, err = policy.Compile(with); err != nil {
		return nil, nil, fmt.Errorf("with the overrides made while running: %w", err)
	}
	return p, lost, nil
}

// parseLimits reads the texts of limits that replace those of a level. They inherit from
// the level's limits, see [sluice.ParseLimit]. The error joins all faults.
func parseLimits(l *policy.Level, texts []string) (limits []policy.Limit, err error) {
	like, _ := l.Like()
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

// fits returns an error if an override does not match a policy.
func fits(p *policy.Policy, o StoredOverride) error {
	_, lost, err := Put(p, p, []StoredOverride{o})
	if err == nil && len(lost) > 0 {
		err = errors.New("override: " + lost[0].Problem)
	}
	return err
}

// Put returns p with changed overrides. Each has the new limits of its key, or is Removed:
// then the key gets the limits of base, the policy without overrides. Put compiles only
// the changed keys.
func Put(base, p *policy.Policy, changed []StoredOverride) (*policy.Policy, []LostOverride, error) {
	var lost []LostOverride
	for i := range changed {
		o := &changed[i]
		next, problem, err := putOne(base, p, o)
		if err != nil {
			return nil, nil, err
		}
		if problem == "" {
			p = next
			continue
		}
		// The override before it is not active any more.
		gone := *o
		gone.Removed = true
		if next, unknown, err := putOne(base, p, &gone); err == nil && unknown == "" {
			p = next
		}
		if !o.Removed {
			lost = append(lost, LostOverride{*o, problem, !unused(p, *o)})
		}
	}
	return p, lost, nil
}

func putOne(base, p *policy.Policy, o *StoredOverride) (next *policy.Policy, problem string, err error) {
	l := levelFor(p, o.Rule, o.Level)
	if l == nil {
		return p, "the configuration has no such rule or level", nil
	}
	if !has(l, o.Key) {
		return p, "the rule has no such key", nil
	}
	with := o.Override
	if o.Removed {
		with.Limits = nil
		for _, of := range levelFor(base, o.Rule, o.Level).Overrides {
			if slices.Equal(of.Key, o.Key) {
				with = of
			}
		}
	} else {
		if len(o.Limits) == 0 {
			return p, "its limits do not fit the rule: no limit; write one, such as 100/min", nil
		}
		if problem := neverAdmits(p, o.Rule, o.Limits); problem != "" {
			return p, problem, nil
		}
	}
	next, err = p.WithOverride(o.Rule, o.Level, with)
	if faults, ok := errors.AsType[policy.RuleErrors](err); ok {
		return p, "its limits do not fit the rule: " + faults[0].Problem, nil
	}
	return next, "", err
}

// neverAdmits returns the reason why limits of an override deny every request of a rule, ""
// if they do not.
func neverAdmits(p *policy.Policy, rule string, limits []policy.Limit) string {
	r, _ := p.RuleOf(rule) // exists, as one of its levels does
	for _, l := range limits {
		if problem := r.NeverAdmits(l); problem != "" {
			return "its limits do not fit the rule: " + problem
		}
	}
	return ""
}

// levelFor returns the level of a rule with these names, nil if there is none.
func levelFor(p *policy.Policy, rule, level string) *policy.Level {
	r, ok := p.RuleOf(rule)
	if !ok || r.Name != rule {
		return nil
	}
	for j := range r.Levels {
		if r.Levels[j].Name == level {
			return &r.Levels[j]
		}
	}
	return nil
}

// unused reports whether the rules of a policy do not have the key of an override.
func unused(p *policy.Policy, o StoredOverride) bool {
	l := levelFor(p, o.Rule, o.Level)
	return l == nil || !has(l, o.Key)
}

// has reports whether a level has a key in the form in which it is written. A form that
// means another key now would give the override to the wrong key.
func has(l *policy.Level, values []string) bool {
	key, err := l.Key(values)
	return err == nil && slices.Equal(key, values)
}

// misfits returns the faults of the overrides of rules, and err if another part of the rules
// has a fault.
func misfits(with []policy.Rule, err error) (map[string]string, error) {
	faults, ok := errors.AsType[policy.RuleErrors](err)
	if !ok {
		return nil, err
	}
	problems := make(map[string]string)
	for _, f := range faults {
		at := f.At.Steps()
		if len(at) < 2 || at[1].Field != "Overrides" || at[1].Item == 0 {
			return nil, err
		}
		r := &with[f.Rule]
		l := &r.Levels[at[0].Item-1]
		o := StoredOverride{Rule: r.Name, Level: l.Name, Override: l.Overrides[at[1].Item-1]}
		if _, reported := problems[o.ID()]; !reported {
			problems[o.ID()] = f.Problem
		}
	}
	return problems, nil
}

// over returns rules with the overrides, which replace the rules' own for the same keys. It
// does not change the rules.
func over(rules []policy.Rule, all []StoredOverride) (with []policy.Rule, lost []LostOverride) {
	of := make(map[[2]string][]*StoredOverride) // by rule and level
	for i := range all {
		at := [2]string{all[i].Rule, all[i].Level}
		of[at] = append(of[at], &all[i])
	}
	with = slices.Clone(rules)
	for i := range with {
		r, cloned := &with[i], false
		for j := range r.Levels {
			at := [2]string{r.Name, r.Levels[j].Name}
			if of[at] == nil {
				continue
			}
			if !cloned {
				r.Levels, cloned = slices.Clone(r.Levels), true
			}
			lost = append(lost, put(r.Name, &r.Levels[j], of[at])...)
			delete(of, at)
		}
	}
	for i := range all {
		if of[[2]string{all[i].Rule, all[i].Level}] != nil {
			lost = append(lost, LostOverride{StoredOverride: all[i], Problem: "the configuration has no such rule or level"})
		}
	}
	return with, lost
}

// put adds overrides to a level. They replace the level's own for the same keys.
func put(rule string, l *policy.Level, all []*StoredOverride) (lost []LostOverride) {
	l.Overrides = slices.Clone(l.Overrides)
	at := make(map[string]int, len(l.Overrides)) // by key
	for i := range l.Overrides {
		o := StoredOverride{Rule: rule, Level: l.Name, Override: l.Overrides[i]}
		at[o.ID()] = i
	}
	for _, o := range all {
		i, taken := at[o.ID()]
		switch {
		case !has(l, o.Key):
			lost = append(lost, LostOverride{StoredOverride: *o, Problem: "the rule has no such key"})
		case taken:
			l.Overrides[i] = o.Override
		case len(l.Overrides) == bounds.MaxOverrides:
			lost = append(lost, LostOverride{*o, fmt.Sprintf("the level has %d overrides, and no more", len(l.Overrides)), true})
		default:
			at[o.ID()] = len(l.Overrides)
			l.Overrides = append(l.Overrides, o.Override)
		}
	}
	return lost
}
