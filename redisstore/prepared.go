// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// prepared is what is the same in all requests under one plan.
type prepared struct {
	scope  string // what the names of its keys begin with
	limits []preparedLimit
}

// preparedLimit is one limit of a plan.
type preparedLimit struct {
	term      *sluice.Term
	scope     string // of the plan
	name      string // in which the names of its keys end
	head      string // what its states begin with
	plainHead string // the same in the first format
	take      string // the numbers of the take script, of buckets
	series    *series
}

// plansKept is how many plans are kept ready. A process that makes new ones
// all the time prepares some again.
const plansKept = 1024

// plans are the plans that a Store has seen. The zero value is ready to use.
type plans struct {
	ready sync.Map // of *sluice.Plan to *prepared
	count atomic.Int64
}

// of returns p, prepared with names as k gives them.
func (l *plans) of(p *sluice.Plan, k *keyer, all *allSeries) *prepared {
	if r, ok := l.ready.Load(p); ok {
		return r.(*prepared)
	}
	if l.count.Add(1) > plansKept {
		l.ready.Clear()
		l.count.Store(1)
	}
	r := k.prepare(p, all)
	l.ready.Store(p, r)
	return r
}

func (k *keyer) prepare(p *sluice.Plan, all *allSeries) *prepared {
	r := &prepared{scope: k.scope(p.Scope()), limits: make([]preparedLimit, p.Len())}
	for i := range r.limits {
		t := p.Term(i)
		r.limits[i] = preparedLimit{
			term: t, scope: p.Scope(), name: nameOf(t.Name), head: headOf(t), plainHead: string(appendHead(nil, &t.Limit)), series: all.of(t),
		}
		if kindOf(t) == kindBucket {
			r.limits[i].take = string(appendNumbers(nil, algo.Horizon(t), t.Rate.Den, t.Rate.One.Micros, t.Rate.One.Rem,
				t.Reach.Micros, t.Reach.Rem, t.Rate.Num, t.Most.Micros, t.Most.Rem))
		}
	}
	return r
}
