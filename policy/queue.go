// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/sluicegate/sluice/internal/instants"
)

// DefaultQueue is how many requests a [Front] holds back at once if it is not told
// otherwise.
const DefaultQueue = 10_000

// ErrQueueFull is why a request is not held back: as many as may be are.
var ErrQueueFull = errors.New("policy: as many requests are held back as may be")

// Queue bounds how many requests are held back at once, whatever the rules, and
// keeps their order: who leaves it has the next of those that are charged the same
// go on in its stead. What a request leaves that has nobody behind it is kept for
// the next until it is due, of as many as the Queue has places. It is safe for
// concurrent use.
type Queue struct {
	places   atomic.Int64
	held     atomic.Int64
	instants *instants.Registry[spot, receipt]
}

// NewQueue returns a Queue of so many places, at least 1.
func NewQueue(places int) *Queue {
	q := &Queue{instants: instants.New[spot](places, func(back []receipt) {
		giveBack(context.Background(), &Plain{}, back)
	})}
	q.Resize(places)
	return q
}

// Resize makes it so many places, at least 1. Who is held back already stays.
func (q *Queue) Resize(places int) {
	places = max(places, 1)
	q.places.Store(int64(places))
	q.instants.Resize(places)
}

// Held returns how many requests are held back now.
func (q *Queue) Held() int { return int(q.held.Load()) }

// enter takes a place, which leave gives back. It returns [ErrQueueFull] if there
// is none.
func (q *Queue) enter() error {
	if q.held.Add(1) > q.places.Load() {
		q.held.Add(-1)
		return ErrQueueFull
	}
	return nil
}

func (q *Queue) leave() { q.held.Add(-1) }
