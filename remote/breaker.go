// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync"
	"sync/atomic"
)

type state int32

const (
	closed   state = iota // requests go to the store
	open                  // none goes to the store
	halfOpen              // a few requests at a time go to the store
)

// trials is how many requests must succeed in a row before all requests go to the store
// again; at most that many are tried at once.
const trials = 16

// breaker decides whether requests go to the store. It opens when failures exceed successes
// by a number.
type breaker struct {
	failures int
	changed  func(to state, err error) // called under the lock

	state      atomic.Int32
	generation atomic.Uint64 // of the state; reports of an older one are ignored
	score      atomic.Int32

	mu      sync.Mutex
	tried   int // requests in flight while half open
	window  int // the maximum of tried
	success int
}

// ticket admits one request.
type ticket struct {
	generation uint64
	trial      bool
	past       bool // admitted without the breaker
}

// verdict is the outcome of a request for the breaker.
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

// report must be called once for every ticket.
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

// try admits a first request after the store has answered a probe.
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
