// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

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

	mu   sync.Mutex
	all  map[slotOwner]unreleased
	done int // of all, those whose owner is done
}

type slotOwner struct{ scope, name, key, owner string }

func ownerOf(r *sluice.SlotRequest) slotOwner {
	return slotOwner{r.Scope, r.Limit.Name, r.Key, r.Owner}
}

type unreleased struct {
	req   sluice.SlotRequest
	until time.Time // from then on the store has forgotten it by itself
	done  bool      // the owner is: it is to be sent
}

func (l *releases) put(r *sluice.SlotRequest, done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := ownerOf(r)
	l.remove(id)
	if len(l.all) >= l.most {
		return // it expires: until then it errs to denying
	}
	e := unreleased{req: *r, until: time.Now().Add(r.Limit.TTL), done: done}
	e.req.Op, e.req.Cost = sluice.SlotRelease, 1
	if l.all == nil {
		l.all = make(map[slotOwner]unreleased)
	}
	l.all[id] = e
	if done {
		l.done++
	}
}

// remove needs the lock.
func (l *releases) remove(id slotOwner) {
	if l.all[id].done {
		l.done--
	}
	delete(l.all, id)
}

// add notes that an owner is done.
func (l *releases) add(r *sluice.SlotRequest) { l.put(r, true) }

// doubt notes that the store may hold a slot for an owner to whom a policy gave
// one.
func (l *releases) doubt(r *sluice.SlotRequest) { l.put(r, false) }

// doubtful reports whether doubt was called for an owner that is done now.
func (l *releases) doubtful(r *sluice.SlotRequest) bool {
	l.mu.Lock()
	_, ok := l.all[ownerOf(r)]
	l.mu.Unlock()
	if ok {
		l.add(r)
	}
	return ok
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
	return l.done
}

// take removes and returns up to n that are to be sent, and forgets those that
// the store has forgotten.
func (l *releases) take(n int, now time.Time) (reqs []sluice.SlotRequest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, e := range l.all {
		switch {
		case !now.Before(e.until):
			l.remove(id)
		case e.done && len(reqs) < n:
			reqs = append(reqs, e.req)
			l.remove(id)
		}
	}
	return reqs
}

// settleSlots releases what is to be released, for so long at most. It reports
// whether the store has answered all of it.
func (s *Store) settleSlots(ctx context.Context, most time.Duration, send sender) bool {
	for began := time.Now(); time.Since(began) < most && !s.keeper.ended(); {
		reqs := s.releases.take(chargesAtOnce, time.Now())
		if len(reqs) == 0 {
			return true
		}
		for i := range reqs {
			c := s.newSlotCall(&reqs[i])
			_, err := send(ctx, c)
			c.tell([]bool{true})
			if err == nil {
				err = c.failure()
			}
			if err != nil {
				for j := i; j < len(reqs); j++ {
					s.releases.add(&reqs[j])
				}
				return false
			}
		}
	}
	return true
}
