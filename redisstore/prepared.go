// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// prepared is the common part of all requests under one plan.
type prepared struct {
	scope  string // the prefix of its keys
	limits []preparedLimit
	age    int64 // of the series
}

// preparedLimit is one limit of a plan.
type preparedLimit struct {
	term   *sluice.Term
	scope  string // of the plan
	name   string // the suffix of its keys
	head   string // the header and head of its values
	take   string // the numbers for the script for takes, if they are constant
	series *series
}

// prepared returns the prepared form of p.
func (s *Store) prepared(p *sluice.Plan) *prepared {
	if r, ok := s.plans.Of(&p.Kept); ok && r.age == s.series.age.Load() {
		return r
	}
	r := s.prepare(p)
	s.plans.Keep(&p.Kept, r)
	return r
}

func (s *Store) prepare(p *sluice.Plan) *prepared {
	r := &prepared{scope: s.keyer.scope(p.Scope()), limits: make([]preparedLimit, p.Len()), age: s.series.age.Load()}
	for i := range r.limits {
		t := p.Term(i)
		r.limits[i] = preparedLimit{
			term: t, scope: p.Scope(), name: nameOf(t.Name), head: headOf(t), series: s.series.of(t),
		}
		switch k := kindOf(t); {
		case k == kindBucket:
			r.limits[i].take = string(appendNumbers(nil, algo.Horizon(t), t.Rate.Den, t.Rate.One.Micros, t.Rate.One.Rem,
				t.Reach.Micros, t.Reach.Rem, t.Rate.Num, t.Most.Micros, t.Most.Rem))
		case k == kindLog || (k == kindFixed || k == kindCounter) && t.Calendar == sluice.NoCalendar && !withholds(t):
			it := item{preparedLimit: &r.limits[i]}
			r.limits[i].take = string(it.appendArgs(nil, 0, 0))
		}
	}
	return r
}
