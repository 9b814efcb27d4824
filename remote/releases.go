// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// releases are slots that the store may hold and should not. A release says the
// same however often it is sent, so one whose answer was lost is sent again.
type releases struct {
	most int

	mu  sync.Mutex
	all map[slotOwner]*unreleased
	due int // of all, those that are to be sent
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

func (e *unreleased) due() bool { return e != nil && e.done && !e.awaited }

// put notes that the store may hold a slot: for an owner that is done, or for one
// to whom a policy gave one. Without room it is left to expire, which errs to
// denying.
func (l *releases) put(r *sluice.SlotRequest, done, awaited bool) *unreleased {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := ownerOf(r)
	l.remove(id)
	if len(l.all) >= l.most {
		return nil
	}
	if l.all == nil {
		l.all = make(map[slotOwner]*unreleased)
	}
	e := &unreleased{req: *r, until: time.Now().Add(r.Limit.TTL), done: done, awaited: awaited}
	e.req.Op, e.req.Cost = sluice.SlotRelease, 1
	l.all[id] = e
	l.count(e, 1)
	return e
}

// count and remove need the lock.
func (l *releases) count(e *unreleased, n int) {
	if e.due() {
		l.due += n
	}
}

func (l *releases) remove(id slotOwner) {
	l.count(l.all[id], -1)
	delete(l.all, id)
}

// heard notes that the request of e is no longer on its way.
func (l *releases) heard(e *unreleased) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e == nil || l.all[ownerOf(&e.req)] != e {
		return // the owner has begun anew
	}
	e.awaited, e.until = false, time.Now().Add(e.req.Limit.TTL)
	l.count(e, 1)
}

// finish notes that an owner is done, if it was not certain what the store holds
// for it.
func (l *releases) finish(r *sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.all[ownerOf(r)]; e != nil && !e.done {
		e.done = true
		l.count(e, 1)
	}
}

// forget is for an owner that begins anew.
func (l *releases) forget(r *sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(ownerOf(r))
}

// len returns how many are to be sent.
func (l *releases) len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.due
}

// take removes and returns up to n that are to be sent, and forgets those that
// the store has forgotten.
func (l *releases) take(n int, now time.Time) (reqs []sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.all {
		switch {
		case !now.Before(e.until) && !e.awaited:
			l.remove(id)
		case e.due() && len(reqs) < n:
			reqs = append(reqs, e.req)
			l.remove(id)
		}
	}
	return reqs
}

// settleSlots releases what is to be released, for so long at most. It reports
// whether the store has answered all of it.
func (s *Store) settleSlots(ctx context.Context, most time.Duration, past bool) bool {
	for began := time.Now(); time.Since(began) < most && !s.keeper.ended(); {
		reqs := s.releases.take(chargesAtOnce, time.Now())
		if len(reqs) == 0 {
			return true
		}
		for i := range reqs {
			if s.sendRelease(ctx, &reqs[i], past) {
				continue
			}
			for j := i; j < len(reqs); j++ {
				s.releases.put(&reqs[j], true, false)
			}
			return false
		}
	}
	return true
}

func (s *Store) sendRelease(ctx context.Context, req *sluice.SlotRequest, past bool) bool {
	bounded := s.bound(ctx)
	defer release(bounded)
	_, err := s.askSlot(bounded, req, past)
	keep(err)
	return storeError(err) == nil
}
