// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"
)

// Programs that goroutines send at the same time go out in one piece. Who comes
// first lets all others run that are ready to, and then sends what they have
// brought with his own. The client's own pipeline writes as soon as it has the
// first: with many callers that is a system call for almost each of them, here
// and on the server. Who is alone goes at once. In a Cluster each goes by
// itself, so that none waits for a node that is not its own.

// gathering is what waits to be sent. The zero value is ready to use.
type gathering struct {
	under   atomic.Int64 // programs that wait to be sent or for their reply
	mu      sync.Mutex
	leading bool // somebody is about to send
	waiting []*parcel
	replies sync.Pool // of chan rueidis.RedisResult, empty
}

// parcel is one program and where its result goes.
type parcel struct {
	inv   *invocation
	reply chan rueidis.RedisResult // has room for it
	left  abandonment
}

// most is how many programs go out in one piece.
const most = 256

// send runs a program, as [invocation.do] does.
func (s *Store) send(ctx context.Context, inv *invocation) rueidis.RedisResult {
	g := &s.gathering
	defer g.under.Add(-1)
	if g.under.Add(1) == 1 || s.cluster {
		return inv.do(ctx, s)
	}
	g.mu.Lock()
	if g.leading {
		if len(g.waiting) >= most {
			g.mu.Unlock()
			return inv.do(ctx, s)
		}
		p := g.parcel(inv)
		g.waiting = append(g.waiting, p)
		g.mu.Unlock()
		return s.receive(ctx, p)
	}
	g.leading = true
	g.mu.Unlock()
	runtime.Gosched()
	g.mu.Lock()
	list := g.waiting
	g.leading, g.waiting = false, nil
	if len(list) == 0 {
		g.mu.Unlock()
		return inv.do(ctx, s)
	}
	p := g.parcel(inv)
	g.mu.Unlock()
	gone := ctx.Err()
	if gone == nil { // or the others go without it
		list = append(list, p)
	}
	if _, ok := ctx.(bounded); ok {
		s.sendAll(list) //nolint:contextcheck // it has a context of its own, which ends when ctx does
	} else {
		// The caller is pending still: Close waits for both.
		s.pending.Go(func() { s.sendAll(list) }) //nolint:contextcheck // the others may wait for longer
	}
	if gone != nil {
		return rueidis.NewErrorResult(gone)
	}
	return s.receive(ctx, p)
}

func (g *gathering) parcel(inv *invocation) *parcel {
	reply, ok := g.replies.Get().(chan rueidis.RedisResult)
	if !ok {
		reply = make(chan rueidis.RedisResult, 1)
	}
	return &parcel{inv: inv, reply: reply}
}

// sendAll sends programs in one piece and hands out their results.
func (s *Store) sendAll(list []*parcel) {
	ctx, cancel := s.bound(context.Background())
	defer cancel()
	wire := make([]rueidis.Completed, len(list))
	for i, p := range list {
		wire[i] = p.inv.bySHA(s.client.B())
	}
	for i, res := range s.client.DoMulti(ctx, wire...) {
		list[i].reply <- res
		s.left.finish(&list[i].left)
	}
}

// receive waits for the result of p. Who does not wait to the end takes his
// parcel back if it is not on its way.
func (s *Store) receive(ctx context.Context, p *parcel) rueidis.RedisResult {
	g := &s.gathering
	select {
	case res := <-p.reply:
		g.replies.Put(p.reply)
		return p.inv.retry(ctx, s, res)
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, other := range g.waiting {
		if other == p {
			g.waiting = append(g.waiting[:i], g.waiting[i+1:]...)
			return rueidis.NewErrorResult(ctx.Err())
		}
	}
	s.left.abandon(&p.left)
	return rueidis.NewErrorResult(ctx.Err())
}
