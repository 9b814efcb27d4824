// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
)

// Programs that goroutines send at the same time are sent as one pipeline. The first
// goroutine yields to all that are ready to run, and then sends their programs with its
// own; if its caller may return early, a worker does so. The client's own pipeline writes
// as soon as it has the first program: with many callers that takes a system call for
// almost each program, here and on the server. A single program is sent at once. In a
// Cluster each is sent by itself, so that none waits for another's node.

// gathering is the queue of programs to be sent. The zero value is ready to use.
type gathering struct {
	under         atomic.Int64 // programs that are queued or wait for their reply
	oneSlot       atomic.Bool  // the server has refused keys of several slots
	mu            sync.Mutex
	leading       bool // a goroutine is about to send
	waiting       []*queued
	idle          sync.Pool // of *queued
	idlePipelines sync.Pool // of *pipeline
}

// queued is one program and its result.
type queued struct {
	inv *invocation
	awaited[Reply]
}

// most is the maximum number of programs in a pipeline.
const most = 256

func (g *gathering) queued(inv *invocation) *queued {
	p, ok := g.idle.Get().(*queued)
	if !ok {
		p = &queued{awaited: awaited[Reply]{ready: make(chan Reply, 1)}}
	}
	p.inv = inv
	p.state.Store(stays)
	return p
}

// release recycles p, to which nothing may refer.
func (g *gathering) release(p *queued) {
	p.inv = nil
	g.idle.Put(p)
}

// send runs a program for a caller that waits to the end, as [invocation.do] does.
func (s *Store) send(ctx context.Context, inv *invocation) Reply {
	g := &s.gathering
	defer g.under.Add(-1)
	if g.under.Add(1) == 1 || s.cluster || ctx.Err() != nil { // the contexts of others have not ended
		return inv.do(ctx, s)
	}
	p := g.queued(inv)
	switch first, full := g.join(p); {
	case full:
		g.release(p)
		return inv.do(ctx, s)
	case first:
		s.lead() //nolint:contextcheck // the others may wait for longer
	}
	res := <-p.ready
	g.release(p)
	return inv.retry(ctx, s, res)
}

// sendApart has a worker run a program once. The caller must decrement s.gathering.under
// when it no longer waits.
func (s *Store) sendApart(inv *invocation) *queued {
	g := &s.gathering
	p := g.queued(inv)
	g.under.Add(1)
	first, full := false, s.cluster
	if !full {
		first, full = g.join(p)
	}
	switch {
	case full:
		s.work(func() { s.sendAll([]*queued{p}) })
	case first:
		s.work(s.leads)
	}
	return p
}

// sendMany runs programs on different keys for a caller that waits to the end, each once
// and in any order. It runs nothing and returns false if too many wait.
func (s *Store) sendMany(list []*invocation, replies []Reply) bool {
	g := &s.gathering
	g.under.Add(1)
	defer g.under.Add(-1)
	all := make([]*queued, len(list))
	for i, inv := range list {
		all[i] = g.queued(inv)
	}
	first, full := g.join(all...)
	if first {
		s.lead()
	}
	for i, p := range all {
		if !full {
			replies[i] = <-p.ready
		}
		g.release(p)
	}
	return !full
}

// join queues programs, unless the queue is full. It reports whether they are the first
// ones: then no other goroutine is about to send.
func (g *gathering) join(list ...*queued) (first, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting)+len(list) > most {
		return false, true
	}
	g.waiting = append(g.waiting, list...)
	first, g.leading = !g.leading, true
	return first, false
}

// lead yields once to all goroutines that are ready, and sends the queue.
func (s *Store) lead() {
	g := &s.gathering
	if g.under.Load() > 1 {
		runtime.Gosched()
	}
	g.mu.Lock()
	list := g.waiting
	g.leading, g.waiting = false, nil
	g.mu.Unlock()
	s.sendAll(list)
}

// sendAll sends programs as one pipeline and hands out their results.
func (s *Store) sendAll(list []*queued) {
	ctx := s.bound()
	if len(list) == 1 {
		list[0].answer(s, list[0].inv.run(ctx, s))
		return
	}
	w := s.gathering.pipeline()
	for _, p := range list {
		w.add(p)
	}
	s.runPipeline(ctx, w)
	s.gathering.putBack(w)
}
