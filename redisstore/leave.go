// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// The client makes a connection under the context of the first call that needs it, and all
// other calls wait for it, whatever their contexts are. If a call is alone on a connection,
// the client applies its deadline to the connection, which then breaks for all, and ignores
// the cancellation of its context. So a caller's context never reaches the
// client. If a caller may leave, a worker sends its request under a context of the store's
// own, which ends with the Timeout. The caller waits for the answer and may leave at any
// time. The worker still reads the answer, and gives back the spent units if the caller
// has asked for that.

// ErrOverloaded means, in a [*sluice.NotSentError], that a request was not sent because
// 1,024 or more requests whose callers have left wait for a server that hangs or answers
// too late. Requests that were already sent may still add to that number. In a Cluster one
// node that hangs has this effect on all, until Options.Timeout has passed.
var ErrOverloaded = errors.New("redisstore: too many requests without an answer whose callers have left")

// mostLeft is the maximum number of requests under way whose callers have left: at that number
// no more are sent. Each occupies a worker or two until it is answered, or the Timeout is
// over.
const mostLeft = 1024

// awaited is an answer to a caller that may leave. The zero value with a channel
// is ready to use.
type awaited[T any] struct {
	ready chan T // has room for one
	state atomic.Int32
	then  func(context.Context, T) // gets the answer if the caller has left
}

// The states of an answer.
const (
	stays    = iota // its caller waits
	left            // its caller has left
	answered        // it has been sent to ready, or to then
)

// begin has a worker call ask with ctx, a context of the store's own.
func begin[T any](ctx context.Context, s *Store, ask func(context.Context) T) *awaited[T] {
	a := &awaited[T]{ready: make(chan T, 1)}
	s.work(func() { a.answer(s, ask(ctx)) })
	return a
}

// wait returns the answer, or false if ctx ends first.
func (a *awaited[T]) wait(ctx context.Context) (answer T, ok bool) {
	if ctx.Done() == nil { // frequent, and half the cost
		return <-a.ready, true
	}
	select {
	case answer = <-a.ready:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}

// leave ends the wait of the caller, and has a worker call then with the answer.
func (a *awaited[T]) leave(s *Store, then func(context.Context, T)) {
	s.left.Add(1)
	a.then = then
	if !a.state.CompareAndSwap(stays, left) {
		a.end(s, <-a.ready)
	}
}

// answer is called once, by a worker or for a caller that stays.
func (a *awaited[T]) answer(s *Store, answer T) {
	if a.state.Swap(answered) == stays {
		a.ready <- answer // from here on a is its caller's
	} else {
		a.end(s, answer)
	}
}

func (a *awaited[T]) end(s *Store, answer T) {
	s.work(func() {
		a.then(s.bound(), answer)
		s.left.Add(-1)
	})
}

// late is a request under way whose caller has left.
type late struct {
	store *Store
	gone  *sluice.MaybeSentError
	// undo gives back the units and the slot of a decision.
	undo func(context.Context, *sluice.Decision) bool

	mu     sync.Mutex
	result *sluice.Result    // nil if there is none yet
	undoes bool              // whether the caller wants the units back
	heard  func(sluice.Late) // nil until the caller calls finish
}

func (s *Store) late(ctx context.Context, undo func(context.Context, *sluice.Decision) bool) *late {
	l := &late{store: s, undo: undo}
	l.gone = sluice.NewMaybeSentError(ctx.Err(), l.finish)
	return l
}

// lateTake is late for a request. The caller must not keep req.
func (s *Store) lateTake(ctx context.Context, req *sluice.Request) *late {
	return s.late(ctx, func(ctx context.Context, d *sluice.Decision) bool { return s.giveBack(ctx, req, d) })
}

// finish is called once, when the caller decides whether spent units are given back.
func (l *late) finish(undo bool, heard func(sluice.Late)) {
	l.mu.Lock()
	l.undoes, l.heard = undo, heard
	over := l.result != nil
	l.mu.Unlock()
	switch s := l.store; {
	case !over:
	case s.pending.enter():
		s.left.Add(1)
		s.workers.do(func() {
			l.end(s.bound())
			s.left.Add(-1)
		})
	default:
		go heard(sluice.Late{Result: *l.result})
	}
}

// answer is called once, with the result of the request.
func (l *late) answer(ctx context.Context, d sluice.Decision, err error) {
	l.mu.Lock()
	if err == nil {
		l.result = &sluice.Result{Decision: d}
	} else {
		l.result = &sluice.Result{Err: err}
	}
	said := l.heard != nil
	l.mu.Unlock()
	if said {
		l.end(ctx)
	}
}

// end gives the units back if the caller wants that, and calls heard.
func (l *late) end(ctx context.Context) {
	r := sluice.Late{Result: *l.result}
	r.Undone = l.undoes && r.Err == nil && l.undo(ctx, &r.Decision)
	l.heard(r)
}
