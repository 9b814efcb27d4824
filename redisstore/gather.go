// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// Programs that goroutines send at the same time go out in one piece. Who comes
// first lets all others run that are ready to, and then sends what they have
// brought with his own, or has a worker do so if he may leave. The client's own
// pipeline writes as soon as it has the first: with many callers that is a system
// call for almost each of them, here and on the server. Who is alone goes at once.
// In a Cluster each goes by itself, so that none waits for a node that is not its
// own.

// gathering is what waits to be sent. The zero value is ready to use.
type gathering struct {
	under   atomic.Int64 // programs that wait to be sent or for their reply
	mu      sync.Mutex
	leading bool // somebody is about to send
	waiting []*parcel
	idle    sync.Pool // of *parcel
	pieces  sync.Pool // of *piece
}

// parcel is one program and its result.
type parcel struct {
	inv *invocation
	awaited[transport.Reply]
}

// most is how many programs go out in one piece.
const most = 256

func (g *gathering) parcel(inv *invocation) *parcel {
	p, ok := g.idle.Get().(*parcel)
	if !ok {
		p = &parcel{awaited: awaited[transport.Reply]{ready: make(chan transport.Reply, 1)}}
	}
	p.inv = inv
	p.state.Store(stays)
	return p
}

// release takes back a parcel that nobody knows any more.
func (g *gathering) release(p *parcel) {
	p.inv = nil
	g.idle.Put(p)
}

// piece is room for programs that go out in one piece, and for their replies.
type piece struct {
	scripts []*transport.Script
	replies []transport.Reply
}

func (g *gathering) piece(n int) *piece {
	w, ok := g.pieces.Get().(*piece)
	if !ok {
		w = new(piece)
	}
	w.scripts, w.replies = slices.Grow(w.scripts, n)[:n], slices.Grow(w.replies, n)[:n]
	return w
}

func (g *gathering) putBack(w *piece) {
	clear(w.scripts)
	clear(w.replies)
	w.scripts, w.replies = w.scripts[:0], w.replies[:0]
	g.pieces.Put(w)
}

// send runs a program for one who waits to the end, as [invocation.do] does.
func (s *Store) send(ctx context.Context, inv *invocation) transport.Reply {
	g := &s.gathering
	defer g.under.Add(-1)
	if g.under.Add(1) == 1 || s.cluster {
		return inv.do(ctx, s)
	}
	p := g.parcel(inv)
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

// sendApart has a worker run a program once. Who calls it counts it out of
// s.gathering.under when he waits no longer.
func (s *Store) sendApart(inv *invocation) *parcel {
	g := &s.gathering
	p := g.parcel(inv)
	g.under.Add(1)
	first, full := false, s.cluster
	if !full {
		first, full = g.join(p)
	}
	switch {
	case full:
		s.work(func() { s.sendAll([]*parcel{p}) })
	case first:
		s.work(s.leads)
	}
	return p
}

// join adds p to what waits, unless that is full. It reports whether p is the
// first, for whom nobody leads yet.
func (g *gathering) join(p *parcel) (first, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) >= most {
		return false, true
	}
	g.waiting = append(g.waiting, p)
	first, g.leading = !g.leading, true
	return first, false
}

// lead sends what waits when all have run that are ready to.
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

// sendAll sends programs in one piece and hands out their results.
func (s *Store) sendAll(list []*parcel) {
	ctx := s.bound()
	if len(list) == 1 {
		list[0].answer(s, s.transport.Run(ctx, list[0].inv.bySHA()))
		return
	}
	w := s.gathering.piece(len(list))
	for i, p := range list {
		w.scripts[i] = p.inv.bySHA()
	}
	s.transport.RunAll(ctx, w.scripts, w.replies)
	for i, p := range list {
		p.answer(s, w.replies[i])
	}
	s.gathering.putBack(w)
}
