// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/instants"
)

// ErrQueueFull is why a request is not delayed: as many as may be are.
var ErrQueueFull = errors.New("policy: the delay queue is full")

// ErrShareFull is why a request is not delayed: as many of its key are as may be
// of one key.
var ErrShareFull = errors.New("policy: the key's share of the delay queue is used up")

// Queue bounds how many requests are delayed at once, whatever the rules, and of
// these how many of one key, so that none can take all places. It keeps their order:
// a request that leaves it has the next of those that are charged the same go on in its stead.
// The Queue keeps instants that delayed requests have left for the next requests, until
// they are due, as many as it has places. It is safe for concurrent use.
type Queue struct {
	mu                    sync.Mutex
	places, share         int
	held                  int             // places taken
	undecided             int             // of these, by requests that may not have to wait
	byKey                 map[waitKey]int // places taken; never 0
	refused, refusedShare int64
	instants              *instants.Registry[spot, receipt]
	presumed              presumptions
	inFlight              atomic.Int64 // requests that hold slots
}

// waitKey is the rule and the key that delay a request.
type waitKey struct{ rule, key string }

// waitKeyOf returns the rule and the key that delay the ask k: those of a limit that
// queues first, then those of a key before a budget without one.
func (v *Verdict) waitKeyOf(k *ask) waitKey {
	rank := -1
	for i := range v.charges[k.first : k.first+k.n] {
		c, n := &v.charges[k.first+i], 0
		if queueing(c.Plan) > 0 {
			n += 2
		}
		if c.Key != "" {
			n++
		}
		if n > rank {
			rank, v.waitKey = n, waitKey{rule: c.rule.Name, key: c.Key}
		}
	}
	return v.waitKey
}

// NewQueue returns a Queue with that many places, at least 1.
func NewQueue(places int) *Queue {
	q := &Queue{byKey: make(map[waitKey]int), instants: instants.New[spot](places, func(back []receipt) {
		giveBack(context.Background(), &StaticAttributes{}, back)
	})}
	q.Resize(places)
	return q
}

// Resize makes it so many places, at least 1. A request that is delayed already stays.
func (q *Queue) Resize(places int) {
	places = max(places, 1)
	q.mu.Lock()
	q.places = places
	q.mu.Unlock()
	q.instants.Resize(places)
}

// Share bounds how many places the requests of one key take: those that one limit
// charges to one budget. With 0, as from the start, it is a tenth of the places,
// and at least 10. A request that is delayed already stays.
func (q *Queue) Share(places int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.share = max(places, 0)
}

// Held returns how many requests are delayed now.
func (q *Queue) Held() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held - q.undecided
}

// InFlight returns how many requests of its fronts hold slots of limits of requests in
// flight now: those that have passed, and that are delayed by longer than a third
// of what a slot lives.
func (q *Queue) InFlight() int { return int(q.inFlight.Load()) }

// Refused returns how many requests found no place so far, and how many more found none
// for their key.
func (q *Queue) Refused() (full, share int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.refused, q.refusedShare
}

// enter takes a place for a request that may have to wait; leave gives it back. It returns
// [ErrQueueFull] if there is none, and [ErrShareFull] if there is none for the key: see
// refuse.
func (q *Queue) enter(k waitKey) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	share := q.share
	if share == 0 {
		share = max(q.places/10, 10)
	}
	switch {
	case q.held >= q.places:
		return ErrQueueFull
	case q.byKey[k] >= share:
		return ErrShareFull
	}
	q.held++
	q.undecided++
	q.byKey[k]++
	return nil
}

// waits records that a request with a place does wait.
func (q *Queue) waits() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.undecided--
}

// refuse counts a request that was denied because enter returned err.
func (q *Queue) refuse(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if errors.Is(err, ErrShareFull) {
		q.refusedShare++
	} else {
		q.refused++
	}
}

// leave gives back the place of a request; waited says whether waits was called for it.
func (q *Queue) leave(k waitKey, waited bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.held--; !waited {
		q.undecided--
	}
	if q.byKey[k]--; q.byKey[k] == 0 {
		delete(q.byKey, k)
	}
}
