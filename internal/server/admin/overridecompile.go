// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// LostOverride is an override that the rules as they are have no use for: they may have
// changed since it was made, and may change back.
type LostOverride struct {
	StoredOverride
	Problem string // why
	// Fits is whether the rules have the key, so that the override can be made
	// anew.
	Fits bool
}

// CompileWith returns a policy of rules, which have no fault, with the overrides put
// over those of the rules themselves, and says which are left out.
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

// parseLimits reads the texts of limits that stand in the place of a level's:
// what they do not name is as there, see [sluice.ParseLimitLike]. The error
// joins all faults.
func parseLimits(l *policy.Level, texts []string) (limits []policy.Limit, err error) {
	like, _ := l.Like()
	var faults []error
	for _, text := range texts {
		limit, err := sluice.ParseLimitLike(text, like...)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		limits = append(limits, policy.Limit{Limit: limit})
	}
	return limits, errors.Join(faults...)
}

// textsOf returns what limits are by themselves, with their algorithms: as texts
// of which nothing depends on what they stand in the place of.
func textsOf(limits []policy.Limit) (texts []string) {
	for i := range limits {
		l := &limits[i].Limit
		text := l.String()
		if algorithm := l.Algorithm.String(); !slices.Contains(strings.Fields(text), algorithm) {
			text += " " + algorithm // the default, which a text leaves out
		}
		texts = append(texts, text)
	}
	return texts
}

// fits says why an override cannot be put over a policy, if so.
func fits(p *policy.Policy, o StoredOverride) error {
	_, lost, err := Put(p, p, []StoredOverride{o})
	if err == nil && len(lost) > 0 {
		err = errors.New("override: " + lost[0].Problem)
	}
	return err
}

// Put returns a policy that differs from p in some overrides: each has the limits that
// its key has from now on, or is Removed. Then those hold that base, the policy
// without any, has for the key. Only these are compiled.
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
		// What was there before it does not hold any more.
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
	l := levelFor(p, o)
	if l == nil {
		return p, "the configuration has no such rule or level", nil
	}
	if !has(l, o.Key) {
		return p, "the rule has no such key", nil
	}
	with := policy.Override{Key: o.Key, Expires: o.Expires, Reason: o.Reason, Author: o.Author}
	if o.Removed {
		for _, of := range levelFor(base, o).Overrides {
			if slices.Equal(of.Key, o.Key) {
				with = of
			}
		}
	} else {
		limits, unreadable := parseLimits(l, o.Limits)
		var problem string
		switch {
		case unreadable != nil:
			problem = "its limits cannot be read: " + unreadable.Error()
		case len(limits) == 0:
			problem = "its limits do not fit the rule: no limit; write one, such as 100/min"
		default:
			problem = neverAdmits(p, o.Rule, limits)
		}
		if problem != "" {
			return p, problem, nil
		}
		with.Limits = limits
	}
	next, err = p.WithOverride(o.Rule, o.Level, with)
	if faults, ok := errors.AsType[policy.RuleErrors](err); ok {
		return p, "its limits do not fit the rule: " + faults[0].Problem, nil
	}
	return next, "", err
}

// neverAdmits returns why limits of an override deny every request of a rule, "" if they
// do not.
func neverAdmits(p *policy.Policy, rule string, limits []policy.Limit) string {
	r, _ := p.RuleOf(rule) // which has a level, so it is there
	for _, l := range limits {
		if problem := r.NeverAdmits(l); problem != "" {
			return "its limits do not fit the rule: " + problem
		}
	}
	return ""
}

// levelFor returns the level that an override is for, nil if there is none.
func levelFor(p *policy.Policy, o *StoredOverride) *policy.Level {
	r, ok := p.RuleOf(o.Rule)
	if !ok || r.Name != o.Rule {
		return nil
	}
	for j := range r.Levels {
		if r.Levels[j].Name == o.Level {
			return &r.Levels[j]
		}
	}
	return nil
}

// unused reports whether the rules of a policy have no such key as that of an
// override.
func unused(p *policy.Policy, o StoredOverride) bool {
	l := levelFor(p, &o)
	return l == nil || !has(l, o.Key)
}

// has reports whether a level has a key as it is written. One that is another's
// now would be given what it was not meant for.
func has(l *policy.Level, values []string) bool {
	key, err := l.Key(values)
	return err == nil && slices.Equal(key, values)
}

// misfits returns what is wrong with each override of rules that has a fault,
// and the error if another part of the rules has.
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
		o := StoredOverride{Rule: r.Name, Level: l.Name, Key: l.Overrides[at[1].Item-1].Key}
		if _, reported := problems[o.ID()]; !reported {
			problems[o.ID()] = f.Problem
		}
	}
	return problems, nil
}

// over returns rules with the overrides put over those of the rules themselves.
// The rules stay as they are.
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

// put puts overrides over those of a level.
func put(rule string, l *policy.Level, all []*StoredOverride) (lost []LostOverride) {
	l.Overrides = slices.Clone(l.Overrides)
	at := make(map[string]int, len(l.Overrides)) // by key
	for i := range l.Overrides {
		o := StoredOverride{Rule: rule, Level: l.Name, Key: l.Overrides[i].Key}
		at[o.ID()] = i
	}
	for _, o := range all {
		with := policy.Override{Key: o.Key, Expires: o.Expires, Reason: o.Reason, Author: o.Author}
		var err error
		with.Limits, err = parseLimits(l, o.Limits)
		i, taken := at[o.ID()]
		switch {
		case !has(l, o.Key):
			lost = append(lost, LostOverride{StoredOverride: *o, Problem: "the rule has no such key"})
		case err != nil:
			lost = append(lost, LostOverride{*o, "its limits cannot be read: " + err.Error(), true})
		case taken:
			l.Overrides[i] = with
		case len(l.Overrides) == bounds.MaxOverrides:
			lost = append(lost, LostOverride{*o, fmt.Sprintf("the level has %d overrides, and no more", len(l.Overrides)), true})
		default:
			at[o.ID()] = len(l.Overrides)
			l.Overrides = append(l.Overrides, with)
		}
	}
	return lost
}
