// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice/internal/clock"
	"github.com/sluicegate/sluice/internal/instants"
	"github.com/sluicegate/sluice/policy"
)

// ErrQueueFull is the error of a request that cannot be delayed, as the queue is full, or its
// key has no more places in it.
var ErrQueueFull = errors.New("evaluate: the delay queue is full")

// errShareFull is the ErrQueueFull of a key that has no more places in the queue.
var errShareFull = shareFullError{errors.New("evaluate: the key's share of the delay queue is used up")}

type shareFullError struct{ error }

// Is reports true for ErrQueueFull.
func (shareFullError) Is(err error) bool { return err == ErrQueueFull }

// Queue bounds the number of requests that are delayed at once, under all rules together and
// for each key, so that no key takes all places. It keeps their order: when a request leaves
// the queue, the next one with the same charges takes its instant. Until an instant is due, the
// Queue keeps it for later requests, at most as many as it has places. It is safe for
// concurrent use.
type Queue struct {
	mu                    sync.Mutex
	clock                 atomic.Pointer[clock.Clock] // of the first evaluator
	places, share         int
	held                  int             // places taken
	undecided             int             // of these, places of requests that may not have to wait
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
			rank, v.waitKey = n, waitKey{rule: c.level.rule.Name, key: c.Key}
		}
	}
	return v.waitKey
}

// NewQueue returns a Queue with that many places, at least 1.
func NewQueue(places int) *Queue {
	q := &Queue{byKey: make(map[waitKey]int)}
	now := func() time.Time { return q.clock.Load().Now() }
	after := func(d time.Duration, f func()) func() bool { return q.clock.Load().AfterFunc(d, f) }
	q.instants = instants.New[spot](places, now, after, func(back []receipt) {
		giveBack(context.Background(), (&policy.Request{}).Attributes(), back)
	})
	q.Resize(places, 0)
	return q
}

// Resize sets the number of places, at least 1, and how many of them requests of one key may
// have, that is, requests that one limit charges to one budget. 0 is a tenth of the places and
// at least 10. Requests that are delayed already stay.
func (q *Queue) Resize(places, ofKey int) {
	places = max(places, 1)
	q.mu.Lock()
	q.places, q.share = places, max(ofKey, 0)
	q.mu.Unlock()
	q.instants.Resize(places)
}

// QueueStats are the counts of a [Queue].
type QueueStats struct {
	Held int // requests that are delayed now
	// InFlight is the number of requests of its evaluators that now hold slots of a limit of
	// requests in flight: requests that have passed, and requests delayed by more than a third
	// of a slot's TTL.
	InFlight int
	// Full is the number of requests so far that found no place in the queue, and ShareFull
	// the number that found none for their key.
	Full, ShareFull int64
}

// Stats returns the counts of the queue.
func (q *Queue) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return QueueStats{q.held - q.undecided, int(q.inFlight.Load()), q.refused, q.refusedShare}
}

// enter takes a place for a request that may have to wait; leave gives it back. It returns
// [ErrQueueFull] if no place is free, and errShareFull if the key may have no more.
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
		return errShareFull
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
	if errors.Is(err, errShareFull) {
		q.refusedShare++
	} else {
		q.refused++
	}
}

// leave gives back the place of a request; waited says that waits was called for it.
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
