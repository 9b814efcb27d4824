// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync"
	"sync/atomic"
)

type state int32

const (
	closed   state = iota // the store is asked
	open                  // it is not
	halfOpen              // it is tried, by a few requests at a time
)

// trials is how many requests must succeed one after the other before all are
// let back to the store; as many at once are tried at most.
const trials = 16

// breaker says whether to ask the store. It opens when failures outnumber
// successes by some.
type breaker struct {
	failures int
	changed  func(to state, err error) // called under the lock

	state      atomic.Int32
	generation atomic.Uint64 // of the state: reports of an older one say nothing
	score      atomic.Int32

	mu      sync.Mutex
	tried   int // requests under way while half open
	window  int // how many may be
	success int
}

// ticket lets one request through.
type ticket struct {
	generation uint64
	trial      bool
	past       bool // the breaker has not been asked
}

// verdict is what a request says about the store.
type verdict uint8

const (
	succeeded verdict = iota
	failed
	neither
)

func (b *breaker) is() state { return state(b.state.Load()) }

func (b *breaker) admit() (ticket, error) {
	t := ticket{generation: b.generation.Load()}
	if b.is() == closed {
		return t, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t.generation = b.generation.Load()
	switch state := b.is(); {
	case state == closed:
		return t, nil
	case state == halfOpen && b.tried < b.window:
		b.tried++
		t.trial = true
		return t, nil
	default:
		return t, errSkipped
	}
}

// report must follow once for every ticket.
func (b *breaker) report(t ticket, v verdict, err error) {
	if !t.trial && (v == neither || v == succeeded && b.score.Load() == 0) {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.generation != b.generation.Load() {
		return
	}
	switch {
	case !t.trial && v == succeeded:
		b.score.Store(max(b.score.Load()-1, 0))
	case !t.trial:
		if b.score.Add(1) >= int32(b.failures) {
			b.turn(open, err)
		}
	case v == failed:
		b.turn(open, err)
	default:
		b.tried--
		if v == succeeded {
			b.window++
			if b.success++; b.success >= trials {
				b.turn(closed, nil)
			}
		}
	}
}

// try lets a first request through after the store has answered a probe.
func (b *breaker) try() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.is() == open {
		b.turn(halfOpen, nil)
	}
}

func (b *breaker) turn(to state, err error) {
	b.generation.Add(1)
	b.state.Store(int32(to))
	b.score.Store(0)
	b.tried, b.window, b.success = 0, 1, 0
	b.changed(to, err)
}
