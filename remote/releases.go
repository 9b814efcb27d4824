// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

// releases holds the slots that the store may hold and should not. A release may be repeated,
// so one whose answer was lost is sent again.
type releases struct {
	most int

	mu   sync.Mutex
	list map[slotOwner]*unreleased
}

type slotOwner struct{ scope, name, key, owner string }

func ownerOf(r *sluice.SlotRequest) slotOwner {
	return slotOwner{r.Scope, r.Limit.Name, r.Key, r.Owner}
}

type unreleased struct {
	req   sluice.SlotRequest
	until time.Time // the store has dropped it by then
	done  bool      // the owner has ended or released
	// awaited says that the acquire may still be on its way: a release could overtake it.
	awaited bool
}

// due reports whether the release is to be sent.
func (e *unreleased) due() bool { return e.done && !e.awaited }

// put records that the store may hold a slot, of an owner that has released it or of one whose
// slot a policy granted. Without room the slot is left to expire, which errs to denying.
func (l *releases) put(r *sluice.SlotRequest, done, awaited bool) *unreleased {
	e := &unreleased{req: *r, until: time.Now().Add(r.Limit.TTL), done: done, awaited: awaited}
	e.req.Op, e.req.Cost, e.req.Key = sluice.SlotRelease, 1, strings.Clone(r.Key) // see debts.add
	l.forget(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.list) < l.most {
		l.list[ownerOf(&e.req)] = e
	}
	return e
}

// heard records that the request of e is no longer on its way.
func (l *releases) heard(e *unreleased) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.awaited, e.until = false, time.Now().Add(e.req.Limit.TTL)
}

// finish records that an owner is done, if the store may hold its slot. It reports whether a
// release is to be sent now.
func (l *releases) finish(r *sluice.SlotRequest) (due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.list[ownerOf(r)]
	if e != nil {
		e.done = true
	}
	return e != nil && e.due()
}

// forget removes the record of an owner that acquires anew.
func (l *releases) forget(r *sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.list, ownerOf(r))
}

// len returns how many releases are to be sent.
func (l *releases) len() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.list {
		if e.due() {
			n++
		}
	}
	return n
}

// take removes and returns up to n releases that are to be sent, and removes slots that the
// store has dropped.
func (l *releases) take(n int, now time.Time) (reqs []sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.list {
		switch gone := !e.awaited && !now.Before(e.until); {
		case gone:
			delete(l.list, id)
		case e.due() && len(reqs) < n:
			reqs = append(reqs, e.req)
			delete(l.list, id)
		}
	}
	return reqs
}

// release releases slots; those without an answer are to be released again. It reports whether
// the store has answered all calls.
func (s *Store) release(ctx context.Context, slots []sluice.SlotRequest, past bool) (all bool) {
	all = true
	for i := range slots {
		if all = all && !s.recovery.ended(); all {
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
