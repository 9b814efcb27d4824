// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"context"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
)

// Store is a store under test whose clock is set by Set and does not advance.
type Store interface {
	sluice.Store
	Set(micros int64)
}

// Open makes a new and empty store. It may end it with Cleanup.
type Open func(t testing.TB) Store

// World holds the limits of a sequence.
type World struct {
	Name string
	// Plans are the plans that may be charged. Plans of one scope whose limits have the same
	// name are versions of each other.
	Plans []Plan
	// Starts says that the decisions depend on the start of a rule, which is recorded for each
	// scope and name: every sequence has scopes of its own.
	Starts bool

	events string // the events of the alphabet
	one    bool   // steps are of one key
	taken  bool   // no step adds units or converts a balance
}

// Plan holds limits that are applied together, as texts with explicit names.
type Plan struct {
	Scope  string
	Limits []string
}

// String writes the limits.
func (p Plan) String() string { return strings.Join(p.Limits, "; ") }

// of returns a plan of scope "s".
func of(limits ...string) Plan { return Plan{"s", limits} }

// compiled is a compiled World.
type compiled struct {
	*World
	plans []*sluice.Plan
	terms [][]*version // of each plan
	count int          // series
}

// compile compiles w, with a suffix to its scopes. It returns an error for a limit that
// ParseLimit does not know, or for which the specification has no rule.
func (w *World) compile(suffix string) (*compiled, error) {
	c := &compiled{World: w}
	all := make(map[string]*series)
	for _, p := range w.Plans {
		var limits []sluice.Limit
		var terms []*version
		for _, text := range p.Limits {
			l, err := sluice.ParseLimit(text)
			if err != nil {
				return nil, err
			}
			v, err := newVersion(l)
			if err != nil {
				return nil, err
			}
			name := p.Scope + "\x00" + l.Filled().Name
			s := all[name]
			if s == nil {
				s = &series{scope: p.Scope}
				all[name] = s
			}
			v = s.version(v)
			limits, terms = append(limits, l), append(terms, v)
			w.Starts = w.Starts || v.deficit > 0 || v.preFilled
		}
		plan, err := sluice.Compile(p.Scope+suffix, limits...)
		if err != nil {
			return nil, err
		}
		c.plans, c.terms = append(c.plans, plan), append(c.terms, terms)
	}
	for _, s := range all {
		s.settle()
	}
	c.count = len(all)
	return c, nil
}

// version returns the version of the same text, or v as a new one.
func (s *series) version(v *version) *version {
	for _, u := range s.versions {
		if u.text == v.text {
			return u
		}
	}
	v.series = s
	s.versions = append(s.versions, v)
	return v
}

// rescope gives the plans new scopes.
func (c *compiled) rescope(suffix string) error {
	fresh, err := c.compile(suffix)
	if err == nil {
		*c = *fresh
	}
	return err
}

// background returns the context of all calls of stores.
func background() context.Context { return context.Background() }
