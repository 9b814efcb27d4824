// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Manner is the way in which a [Proxy] passes bytes on.
type Manner uint8

// The manners.
const (
	Faithful   Manner = iota
	Jittering         // one piece in 16 is shortened, and comes up to a millisecond late
	Lagging           // each piece 150 ms late
	Delaying          // each piece two seconds late
	Trickling         // a byte every 20 ms
	Swallowing        // never
	Cutting           // cuts all connections
)

// Proxy stands between clients and a server. It is safe for concurrent use.
type Proxy struct {
	Addr string

	mu      sync.Mutex
	target  string
	manner  Manner
	changed chan struct{} // closed when manner changes
	conns   map[net.Conn]struct{}

	held  atomic.Int64           // pieces
	taken atomic.Int64           // connections
	cut   atomic.Pointer[string] // the connection of the next script that has this text
}

// CutNext has the proxy cut the connection of the next script in place of its reply.
func (p *Proxy) CutNext() { p.CutNextWith("") }

// CutNextWith is CutNext for the next script with a text in its arguments. The server runs the
// script.
func (p *Proxy) CutNextWith(text string) { p.cut.Store(&text) }

// CutWaits reports whether no script has been sent since [Proxy.CutNext].
func (p *Proxy) CutWaits() bool { return p.cut.Load() != nil }

// Taken returns how many connections clients have made.
func (p *Proxy) Taken() int { return int(p.taken.Load()) }

// Point directs new connections to another server. Open connections stay.
func (p *Proxy) Point(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// to returns the address of the server for a new connection.
func (p *Proxy) to() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.target
}

// Held returns how many pieces wait to be passed on.
func (p *Proxy) Held() int { return int(p.held.Load()) }

// StartProxy starts a Proxy of target, an address, with the manner Faithful. It ends with the
// test.
func StartProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Addr: l.Addr().String(), target: target, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			p.taken.Add(1)
			group.Go(func() { p.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.Set(Cutting)
		group.Wait()
	})
	return p
}

// Set changes the manner, of open connections too.
func (p *Proxy) Set(m Manner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manner = m
	close(p.changed)
	p.changed = make(chan struct{})
	if m == Cutting {
		for c := range p.conns {
			_ = c.Close() // it may have ended by itself
		}
	}
}

func (p *Proxy) now() (Manner, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.manner, p.changed
}

// keep records c, unless connections are cut.
func (p *Proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return p.manner != Cutting
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may have been cut
}

func (p *Proxy) serve(ctx context.Context, client net.Conn) {
	defer p.drop(client)
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.to())
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.keep(client) || !p.keep(server) {
		return
	}
	var group sync.WaitGroup
	var cut atomic.Bool
	group.Go(func() {
		p.pass(ctx, server, client, func(request []byte) bool {
			text := p.cut.Load()
			if text != nil && bytes.Contains(bytes.ToUpper(request), []byte("\nEVAL")) && bytes.Contains(request, []byte(*text)) && p.cut.CompareAndSwap(text, nil) {
				cut.Store(true)
			}
			return true
		})
	})
	p.pass(ctx, client, server, func([]byte) bool { return !cut.Load() })
	group.Wait()
}

// pass copies bytes from one side to the other until either ends, or until goes reports false
// for a piece.
func (p *Proxy) pass(ctx context.Context, to, from net.Conn, goes func([]byte) bool) {
	defer p.drop(to)
	defer p.drop(from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if !goes(buf[:n]) {
			p.drop(to)
			_, _ = io.Copy(io.Discard, from) // until the other side ends, after all that was sent to it
			return
		}
		for rest := buf[:n]; len(rest) > 0; {
			size, ok := p.hold(ctx, len(rest))
			if !ok {
				return
			}
			if _, err := to.Write(rest[:size]); err != nil {
				return
			}
			rest = rest[size:]
		}
		if err != nil {
			return
		}
	}
}

// hold waits as the manner requires and returns how many of n bytes to send now.
func (p *Proxy) hold(ctx context.Context, n int) (size int, ok bool) {
	for {
		m, changed := p.now()
		var wait time.Duration
		switch m {
		case Faithful:
			return n, true
		case Cutting:
			return 0, false
		case Jittering:
			if rand.N(16) > 0 {
				return n, true
			}
			wait, size = rand.N(time.Millisecond), min(1+rand.N(512), n)
		case Lagging:
			wait, size = 150*time.Millisecond, n
		case Delaying:
			wait, size = 2*time.Second, n
		case Trickling:
			wait, size = 20*time.Millisecond, 1
		case Swallowing:
			wait, size = time.Hour, n
		}
		if over, ok := p.wait(ctx, wait, changed); over || !ok {
			return size, ok
		}
	}
}

// wait waits for d. over is false if the manner has changed before; ok is false if the proxy
// has ended.
func (p *Proxy) wait(ctx context.Context, d time.Duration, changed <-chan struct{}) (over, ok bool) {
	p.held.Add(1)
	defer p.held.Add(-1)
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true, true
	case <-changed: // delayed bytes follow the new manner
		return false, true
	case <-ctx.Done():
		return false, false
	}
}
