// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// debtor is a key that owes units to the store.
type debtor struct {
	plan *sluice.Plan
	key  string
}

// owed holds the units that a key has spent without the store: since an instant, and in the
// span before it. Older units no longer count anywhere.
type owed struct {
	since         time.Time
	units, before int64
}

// debts holds units to be charged to the store, for a bounded number of keys.
type debts struct {
	mu   sync.Mutex
	most int
	owed map[debtor]owed
}

// add records units and returns the number of those for which there was no room.
func (l *debts) add(c *sluice.Charge, units int64, now time.Time) (dropped int64) {
	if units <= 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := debtor{c.Plan, c.Key}
	o, ok := l.owed[at]
	if !ok && len(l.owed) >= l.most {
		return units
	}
	if !ok {
		o.since, at.key = now, strings.Clone(at.key) // the key may be a small part of a long text
	}
	o.turn(span(c.Plan), now)
	o.units = min(o.units+units, sluice.MaxQuota)
	l.owed[at] = o
	return 0
}

// subtract removes units that were given back, as far as they are still owed.
func (l *debts) subtract(c *sluice.Charge, units int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := debtor{c.Plan, c.Key}
	o, ok := l.owed[at]
	if !ok {
		return
	}
	if o.units = max(o.units-units, 0); o.units+o.before == 0 {
		delete(l.owed, at)
	} else {
		l.owed[at] = o
	}
}

func (l *debts) forget(c *sluice.Charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.owed, debtor{c.Plan, c.Key})
}

// take removes up to n debts and returns them as charges.
func (l *debts) take(n int, now time.Time) []sluice.Request {
	l.mu.Lock()
	defer l.mu.Unlock()
	reqs := make([]sluice.Request, 0, min(n, len(l.owed)))
	for at, o := range l.owed {
		if len(reqs) == n {
			break
		}
		delete(l.owed, at)
		o.turn(span(at.plan), now)
		if units := min(o.units+o.before, sluice.MaxQuota); units > 0 {
			reqs = append(reqs, sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Plan: at.plan, Key: at.key, Cost: units}})
		}
	}
	return reqs
}

func (l *debts) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owed)
}

// turn begins a new span if the last is over.
func (o *owed) turn(span time.Duration, now time.Time) {
	switch passed := now.Sub(o.since); {
	case passed < span:
	case passed/2 < span:
		o.before, o.units, o.since = o.units, 0, o.since.Add(span)
	default:
		o.before, o.units, o.since = 0, 0, now
	}
}

// span returns the time after which units spent under a plan no longer count.
func span(p *sluice.Plan) time.Duration {
	var longest int64 // µs
	for i := range p.Len() {
		t := p.Term(i)
		micros := t.Micros + t.Sub
		switch {
		case t.Burst > 0 && t.Refill != sluice.Continuous:
			micros = t.Micros * ((t.Burst+t.Debt-1)/t.Quota + 2)
		case t.Burst > 0:
			micros = t.Most.Ceil()
		}
		longest = max(longest, micros)
	}
	return time.Duration(min(longest, math.MaxInt64/1000)) * time.Microsecond
}
