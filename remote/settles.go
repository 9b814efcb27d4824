// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
)

const (
	settlesAtOnce = 32 // in one call on the store's return
	attempts      = 8  // to send a settle to a store that answers
)

// settles holds the settles of holds to be sent to the store. The store carries out a repeated
// settle once, so one of unknown outcome is sent again.
type settles struct {
	most int

	mu   sync.Mutex
	list map[settled]*unsettled
}

// settled names a hold by the first of its keys.
type settled struct{ scope, key, id string }

func holdIn(req *sluice.Request) settled {
	return settled{req.Plan.Scope(), req.Key, req.Hold.ID}
}

type unsettled struct {
	req      sluice.Request
	until    time.Time // its units no longer count anywhere by then
	attempts int       // number of answers with an error
}

// settleOf returns the settle by which the store counts the units of req, which settles a hold or
// takes units under an id. Its keys are copies: see debts.add.
func settleOf(req *sluice.Request, now time.Time) *unsettled {
	e := &unsettled{req: stores.Clone(req), until: now}
	r := &e.req
	r.Op, r.MaxWait, r.At, r.Due, r.Outcomes = sluice.OpSettle, 0, 0, 0, nil
	r.Hold.ID, r.Hold.Settled = strings.Clone(r.Hold.ID), false
	r.Key = strings.Clone(r.Key)
	for i := range r.More {
		r.More[i].Key = strings.Clone(r.More[i].Key)
	}
	for i := range r.Charges() {
		if until := now.Add(span(r.Nth(i).Plan)); until.After(e.until) {
			e.until = until
		}
	}
	return e
}

// put records a settle, unless one of the same hold is recorded: the first counts. sent says that
// the store may have carried it out. It returns the number of units for which there was no
// room.
func (l *settles) put(e *unsettled, sent bool) (dropped int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch old := l.list[holdIn(&e.req)]; {
	case old != nil:
		e = old
	case len(l.list) >= l.most:
		return units(&e.req)
	default:
		l.list[holdIn(&e.req)] = e
	}
	e.req.Hold.Retry = e.req.Hold.Retry || sent
	return 0
}

// forget removes the settles of a key that has been reset. One that settles other keys too is left:
// the store has settled its hold under this key without units.
func (l *settles) forget(c *sluice.Charge) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, e := range l.list {
		if of.key == c.Key && of.scope == c.Plan.Scope() && len(e.req.More) == 0 {
			delete(l.list, of)
		}
	}
}

func (l *settles) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.list)
}

// take removes and returns up to n settles, and removes those whose units no longer count.
func (l *settles) take(n int, now time.Time) (list []*unsettled) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for of, e := range l.list {
		switch {
		case !now.Before(e.until):
			delete(l.list, of)
		case len(list) < n:
			list = append(list, e)
			delete(l.list, of)
		}
	}
	return list
}

// units returns the units of a request under all its keys.
func units(req *sluice.Request) (n int64) {
	for i := range req.Charges() {
		n += req.Nth(i).Cost
	}
	return n
}

// settleLater records a settle that must be sent to the store. sent says that the store may
// have carried it out already.
func (s *Store) settleLater(req *sluice.Request, sent bool) {
	s.counters.dropped.Add(uint64(s.settles.put(settleOf(req, time.Now()), sent)))
	s.wake()
}

// sendSettles sends settles, and records those without an answer again. It reports whether the
// store has answered all of them.
func (s *Store) sendSettles(ctx context.Context, list []*unsettled, past bool) (all bool) {
	if len(list) == 0 {
		return true
	}
	reqs, out := make([]sluice.Request, len(list)), make([]sluice.Result, len(list))
	for i, e := range list {
		reqs[i] = stores.Clone(&e.req)
		_ = s.near.useLeasedPlans(&reqs[i]) // a plan that cannot be leased is unchanged
	}
	bounded := s.bound(ctx)
	defer end(bounded)
	failed := s.askMany(bounded, reqs, out, past)
	all = true
	for i, e := range list {
		err := out[i].Err
		if failed != nil {
			err = failed
		}
		_, sent, _ := unwrap(err)
		switch {
		case err == nil:
			s.counters.charged.Add(uint64(out[i].Decision.Spent))
			continue
		case sent:
			e.attempts++
		}
		all = all && storeError(err) == nil
		if storeError(err) == nil || e.attempts >= attempts {
			s.counters.dropped.Add(uint64(units(&e.req)))
		} else {
			s.counters.dropped.Add(uint64(s.settles.put(e, sent && failed == nil))) // a batch that failed decides nothing
		}
	}
	return all
}
