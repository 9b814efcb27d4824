// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// releases are slots that the store may hold and should not. A release says the
// same however often it is sent, so one whose answer was lost is sent again.
type releases struct {
	most int

	mu   sync.Mutex
	due  map[slotOwner]*unreleased // to be sent
	held map[slotOwner]*unreleased // the others, whose owner is not done or awaited
}

type slotOwner struct{ scope, name, key, owner string }

func ownerOf(r *sluice.SlotRequest) slotOwner {
	return slotOwner{r.Scope, r.Limit.Name, r.Key, r.Owner}
}

type unreleased struct {
	req   sluice.SlotRequest
	until time.Time // from then on the store has forgotten it by itself
	done  bool      // the owner is
	// awaited says that the request is still on its way: a release could come
	// before it.
	awaited bool
}

// put notes that the store may hold a slot: for an owner that is done, or for one
// to whom a policy gave one. Without room it is left to expire, which errs to
// denying.
func (l *releases) put(r *sluice.SlotRequest, done, awaited bool) *unreleased {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := &unreleased{req: *r, until: time.Now().Add(r.Limit.TTL), done: done, awaited: awaited}
	e.req.Op, e.req.Cost = sluice.SlotRelease, 1
	l.place(ownerOf(r), e)
	return e
}

// place needs the lock. Nil is for an owner of whom there is nothing to note.
func (l *releases) place(id slotOwner, e *unreleased) {
	delete(l.due, id)
	delete(l.held, id)
	switch {
	case e == nil || len(l.due)+len(l.held) >= l.most:
	case e.done && !e.awaited:
		l.due[id] = e
	default:
		l.held[id] = e
	}
}

// heard notes that the request of e is no longer on its way.
func (l *releases) heard(e *unreleased) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id := ownerOf(&e.req); l.held[id] == e { // or the owner has begun anew
		e.awaited, e.until = false, time.Now().Add(e.req.Limit.TTL)
		l.place(id, e)
	}
}

// finish notes that an owner is done, if it was not certain what the store holds
// for it.
func (l *releases) finish(r *sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.held[ownerOf(r)]; e != nil {
		e.done = true
		l.place(ownerOf(r), e)
	}
}

// forget is for an owner that begins anew.
func (l *releases) forget(r *sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.place(ownerOf(r), nil)
}

// len returns how many are to be sent.
func (l *releases) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.due)
}

// take removes and returns up to n that are to be sent, and forgets those that
// the store has forgotten.
func (l *releases) take(n int, now time.Time) (reqs []sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	gone := func(_ slotOwner, e *unreleased) bool { return !e.awaited && !now.Before(e.until) }
	maps.DeleteFunc(l.due, gone)
	maps.DeleteFunc(l.held, gone)
	for id, e := range l.due {
		if len(reqs) == n {
			break
		}
		reqs = append(reqs, e.req)
		delete(l.due, id)
	}
	return reqs
}

// release releases slots. What was not answered is to be released again. It
// reports whether the store has answered all of it.
func (s *Store) release(ctx context.Context, slots []sluice.SlotRequest, past bool) (all bool) {
	all = true
	for i := range slots {
		if all = all && !s.keeper.ended(); all {
			bounded := s.bound(ctx)
			_, err := s.askSlot(bounded, &slots[i], past)
			end(bounded)
			keep(err)
			all = storeError(err) == nil
		}
		if !all {
			s.releases.put(&slots[i], true, false)
		}
	}
	return all
}
