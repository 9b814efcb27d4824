// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package h1

import (
	"container/list"
	"context"
	"slices"
	"sort"
	"sync"
	"time"
)

// sweepEvery is how often the connections that are not in use are looked through:
// nobody reads from them meanwhile, so that nobody sees when the upstream closes one.
const sweepEvery = 5 * time.Second

// pool are the connections that are not in use, and the requests that wait for one.
type pool struct {
	mu      sync.Mutex
	idle    []*conn   // in the order of idleAt
	waiters list.List // of *waiter, which were not served
	closing bool      // until the next request
	sweeper *time.Timer
	closed  int // how often all were closed
}

// waiter is a request that waits for a connection: its own, or one that another
// has done with before that is there.
type waiter struct {
	served chan dialled // has room for one
	at     *list.Element
	waits  bool // pool.mu
}

type dialled struct {
	conn *conn
	err  error
}

// take returns the connection that was used last, nil if there is none.
func (t *Transport) take() *conn {
	p := &t.pool
	for {
		p.mu.Lock()
		p.closing = false
		n := len(p.idle)
		if n == 0 {
			p.mu.Unlock()
			return nil
		}
		c := p.idle[n-1]
		p.idle[n-1] = nil
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		if time.Since(c.idleAt) < t.opts.IdleTimeout && c.quiet() {
			return c
		}
		c.close()
	}
}

// dial makes a connection. Unless that must be a fresh one the request may get
// another's, and then it is kept for the next.
func (t *Transport) dial(ctx context.Context, fresh bool) (*conn, error) {
	w := &waiter{served: make(chan dialled, 1), waits: true}
	if !fresh {
		if c := t.wait(w); c != nil {
			return c, nil
		}
	}
	p := &t.pool
	dialling, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.opts.DialTimeout)
	go t.dialFor(dialling, cancel, w)
	select {
	case d := <-w.served:
		return d.conn, d.err
	case <-ctx.Done():
	}
	cancel()
	if !p.serve(w, dialled{}) { // it was meanwhile
		if d := <-w.served; d.err == nil {
			t.put(d.conn)
		}
	}
	return nil, context.Cause(ctx)
}

// wait has w wait for a connection, or returns one that is there by now.
func (t *Transport) wait(w *waiter) *conn {
	p := &t.pool
	for {
		p.mu.Lock()
		if len(p.idle) == 0 {
			w.at = p.waiters.PushBack(w)
			p.mu.Unlock()
			return nil
		}
		p.mu.Unlock()
		if c := t.take(); c != nil {
			return c
		}
	}
}

// dialFor connects to the upstream.
func (t *Transport) dialFor(ctx context.Context, cancel context.CancelFunc, w *waiter) {
	defer cancel()
	below, err := t.opts.Dial(ctx, "tcp", t.address)
	var c *conn
	if err == nil {
		c = newConn(below, &t.opts)
	}
	if !t.pool.serve(w, dialled{c, err}) && c != nil {
		t.put(c)
	}
}

// serve gives a waiter what it waits for. It reports whether it still did.
func (p *pool) serve(w *waiter, d dialled) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serveLocked(w, d)
}

func (p *pool) serveLocked(w *waiter, d dialled) bool {
	if !w.waits {
		return false
	}
	w.waits = false
	if w.at != nil {
		p.waiters.Remove(w.at)
	}
	w.served <- d
	return true
}

// put gives a connection to the request that waits for the longest time, or keeps it.
func (t *Transport) put(c *conn) {
	if !t.keep(c) {
		c.close()
	}
}

func (t *Transport) keep(c *conn) bool {
	p := &t.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if front := p.waiters.Front(); front != nil {
		w, ok := front.Value.(*waiter)
		return ok && p.serveLocked(w, dialled{conn: c})
	}
	if p.closing || len(p.idle) >= t.opts.MaxIdle || c.peek == nil {
		return false
	}
	c.idleAt, c.used = time.Now(), true // it may be closed by the time that it is taken
	p.idle = append(p.idle, c)
	t.sweepLater()
	return true
}

// sweepLater has the sweeper run. pool.mu must be held.
func (t *Transport) sweepLater() {
	if t.pool.sweeper == nil {
		closed := t.pool.closed
		t.pool.sweeper = time.AfterFunc(sweepEvery, func() { t.sweep(closed) })
	}
}

// sweep closes connections that were kept for long enough, or that the upstream has
// closed. It looks at those that were not in use since the last one. Closed is pool.closed
// from when it was set.
func (t *Transport) sweep(closed int) {
	p, now := &t.pool, time.Now()
	p.mu.Lock()
	if closed != p.closed {
		p.mu.Unlock()
		return
	}
	p.sweeper = nil
	n := sort.Search(len(p.idle), func(i int) bool { return now.Sub(p.idle[i].idleAt) < sweepEvery })
	old := slices.Clone(p.idle[:n])
	p.idle = slices.Delete(p.idle, 0, n)
	p.mu.Unlock()
	old = slices.DeleteFunc(old, func(c *conn) bool {
		gone := now.Sub(c.idleAt) >= t.opts.IdleTimeout || !c.quiet()
		if gone {
			c.close()
		}
		return gone
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if closed != p.closed {
		closeAll(old)
		return
	}
	p.idle = append(old, p.idle...)
	if more := len(p.idle) - t.opts.MaxIdle; more > 0 {
		closeAll(p.idle[:more])
		p.idle = slices.Delete(p.idle, 0, more)
	}
	if len(p.idle) > 0 {
		t.sweepLater()
	}
}

func closeAll(conns []*conn) {
	for _, c := range conns {
		c.close()
	}
}

// closeIdle closes what is not in use, and, until the next request, what comes to be.
func (t *Transport) closeIdle() {
	p := &t.pool
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closing = nil, true
	p.closed++
	if p.sweeper != nil {
		p.sweeper.Stop()
		p.sweeper = nil
	}
	p.mu.Unlock()
	closeAll(idle)
}
