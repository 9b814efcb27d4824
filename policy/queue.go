// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"sync/atomic"
)

// DefaultQueue is how many requests a [Front] holds back at once if it is not told
// otherwise.
const DefaultQueue = 10_000

// ErrQueueFull is why a request is not held back: as many as may be are.
var ErrQueueFull = errors.New("policy: as many requests are held back as may be")

// Queue bounds how many requests are held back at once, whatever the rules. It
// is safe for concurrent use.
type Queue struct {
	places atomic.Int64
	held   atomic.Int64
}

// NewQueue returns a Queue of so many places, at least 1.
func NewQueue(places int) *Queue {
	q := &Queue{}
	q.Resize(places)
	return q
}

// Resize makes it so many places, at least 1. Who is held back already stays.
func (q *Queue) Resize(places int) { q.places.Store(int64(max(places, 1))) }

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
