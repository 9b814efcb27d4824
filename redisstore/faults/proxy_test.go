// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"
)

// manner is how a proxy passes bytes on.
type manner uint8

const (
	faithful   manner = iota
	delaying          // each piece half a second late
	trickling         // a byte every 20 ms
	swallowing        // never
	cutting           // no connection lives
)

// proxy stands between clients and a server.
type proxy struct {
	addr   string
	target string

	mu      sync.Mutex
	manner  manner
	changed chan struct{} // closed when manner changes
	conns   map[net.Conn]struct{}
}

// startProxy starts a proxy that passes on faithfully. It ends with the test.
func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{addr: l.Addr().String(), target: target, changed: make(chan struct{}), conns: make(map[net.Conn]struct{})}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return // closed
			}
			group.Go(func() { p.serve(ctx, client) })
		}
	})
	t.Cleanup(func() {
		cancel()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		p.set(cutting)
		group.Wait()
	})
	return p
}

// set changes the manner, of open connections too.
func (p *proxy) set(m manner) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.manner = m
	close(p.changed)
	p.changed = make(chan struct{})
	if m == cutting {
		for c := range p.conns {
			_ = c.Close() // it may have ended by itself
		}
	}
}

func (p *proxy) now() (manner, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.manner, p.changed
}

// keep remembers c, unless connections are cut.
func (p *proxy) keep(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns[c] = struct{}{}
	return p.manner != cutting
}

func (p *proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
	_ = c.Close() // it may have been cut
}

func (p *proxy) serve(ctx context.Context, client net.Conn) {
	defer p.drop(client)
	var d net.Dialer
	server, err := d.DialContext(ctx, "tcp", p.target)
	if err != nil {
		return
	}
	defer p.drop(server)
	if !p.keep(client) || !p.keep(server) {
		return
	}
	var group sync.WaitGroup
	group.Go(func() { p.pass(ctx, server, client) })
	p.pass(ctx, client, server)
	group.Wait()
}

// pass copies from one side to the other until either ends.
func (p *proxy) pass(ctx context.Context, to, from net.Conn) {
	defer p.drop(to)
	defer p.drop(from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
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

// hold waits as long as the manner wants and returns how many of n bytes go now.
func (p *proxy) hold(ctx context.Context, n int) (size int, ok bool) {
	for {
		m, changed := p.now()
		var wait time.Duration
		switch m {
		case faithful:
			return n, true
		case cutting:
			return 0, false
		case delaying:
			wait, size = 2*time.Second, n
		case trickling:
			wait, size = 20*time.Millisecond, 1
		case swallowing:
			wait, size = time.Hour, n
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			return size, true
		case <-changed:
			timer.Stop() // what was held back goes on as it would now
		case <-ctx.Done():
			timer.Stop()
			return 0, false
		}
	}
}
