// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
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
// over those of the rules themselves, and says which are left out. Pause is that
// of [policy.CompilePaced].
func CompileWith(rules []policy.Rule, all []StoredOverride, pause func()) (*policy.Policy, []LostOverride, error) {
	with, lost := over(rules, all)
	p, err := policy.CompilePaced(with, pause)
	if err == nil {
		return p, lost, nil
	}
	misfits, err := misfits(with, err)
	if err != nil {
		return nil, nil, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(o StoredOverride) bool {
		problem, misfit := misfits[o.id()]
		if misfit {
			lost = append(lost, LostOverride{o, "its limits do not fit the rule: " + problem, true})
		}
		return misfit
	})
	with, _ = over(rules, all)
	if p, err = policy.CompilePaced(with, pause); err != nil {
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
	var rules []policy.Rule
	for i := range p.Len() {
		if r := p.Rule(i); r.Name == o.Rule {
			rules = append(rules, *r)
		}
	}
	_, lost, err := CompileWith(rules, []StoredOverride{o}, func() {})
	if err == nil && len(lost) > 0 {
		err = errors.New("override: " + lost[0].Problem)
	}
	return err
}

// unused reports whether the rules of a policy have no such key as that of an
// override.
func unused(p *policy.Policy, o StoredOverride) bool {
	for i := range p.Len() {
		r := p.Rule(i)
		for j := range r.Levels {
			if l := &r.Levels[j]; r.Name == o.Rule && l.Name == o.Level && has(l, o.Key) {
				return false
			}
		}
	}
	return true
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
	faults, ok := errors.AsType[policy.Faults](err)
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
		if _, told := problems[o.id()]; !told {
			problems[o.id()] = f.Problem
		}
	}
	return problems, nil
}

// id tells the overrides of different keys apart.
func (o *StoredOverride) id() string {
	return fmt.Sprintf("%q", append([]string{o.Rule, o.Level}, o.Key...))
}

// over returns rules with the overrides put over those of the rules themselves.
func over(rules []policy.Rule, all []StoredOverride) (with []policy.Rule, lost []LostOverride) {
	b := &board{with: slices.Clone(rules), levels: make(map[[2]string]*place)}
	for i := range all {
		if l := b.put(&all[i]); l != nil {
			lost = append(lost, *l)
		}
	}
	return b.with, lost
}

// board is rules whose overrides change.
type board struct {
	with   []policy.Rule
	rules  map[string]int
	levels map[[2]string]*place // that have changed
}

// place is a level, and where the override of each of its keys is.
type place struct {
	*policy.Level
	at map[string]int
}

func (b *board) put(o *StoredOverride) *LostOverride {
	l := b.level(o.Rule, o.Level)
	if l == nil {
		return &LostOverride{StoredOverride: *o, Problem: "the configuration has no such rule or level"}
	}
	if !has(l.Level, o.Key) {
		return &LostOverride{StoredOverride: *o, Problem: "the rule has no such key"}
	}
	with := policy.Override{Key: o.Key, Expires: o.Expires, Reason: o.Reason, Author: o.Author}
	var err error
	if with.Limits, err = parseLimits(l.Level, o.Limits); err != nil {
		return &LostOverride{*o, "its limits cannot be read: " + err.Error(), true}
	}
	if i, ok := l.at[o.id()]; ok {
		l.Overrides[i] = with
		return nil
	}
	if len(l.Overrides) == policy.MaxOverrides {
		return &LostOverride{*o, fmt.Sprintf("the level has %d overrides, and no more", len(l.Overrides)), true}
	}
	l.at[o.id()] = len(l.Overrides)
	l.Overrides = append(l.Overrides, with)
	return nil
}

// level returns a level that can be changed without changing that of the rules
// which the board was made of; nil if there is none.
func (b *board) level(rule, level string) *place {
	if l, ok := b.levels[[2]string{rule, level}]; ok {
		return l
	}
	if b.rules == nil {
		b.rules = make(map[string]int, len(b.with))
		for i := range b.with {
			b.rules[b.with[i].Name] = i
		}
	}
	i, ok := b.rules[rule]
	if !ok {
		return nil
	}
	r := &b.with[i]
	j := slices.IndexFunc(r.Levels, func(l policy.Level) bool { return l.Name == level })
	if j < 0 {
		return nil
	}
	return b.open(r, j)
}

// open makes a level of a rule ready to be changed.
func (b *board) open(r *policy.Rule, j int) *place {
	r.Levels = slices.Clone(r.Levels)
	for k := range r.Levels { // those that are open have moved
		if p, ok := b.levels[[2]string{r.Name, r.Levels[k].Name}]; ok {
			p.Level = &r.Levels[k]
		}
	}
	l := &place{Level: &r.Levels[j], at: make(map[string]int)}
	l.Overrides = slices.Clone(l.Overrides)
	for i := range l.Overrides {
		o := StoredOverride{Rule: r.Name, Level: l.Name, Key: l.Overrides[i].Key}
		l.at[o.id()] = i
	}
	b.levels[[2]string{r.Name, l.Name}] = l
	return l
}
