// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

var quiet = slog.New(slog.DiscardHandler)

// serve starts a Server on l. The returned function stops it.
func serve(t *testing.T, l net.Listener, o tcp.Options) (*tcp.Server, func()) {
	t.Helper()
	if o.Log == nil {
		o.Log = quiet
	}
	o.Limits = keyed(o.Limits)
	s, err := tcp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			if err := s.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			if err := <-done; !errors.Is(err, tcp.ErrServerClosed) {
				t.Errorf("serve: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	return s, stop
}

// network returns the key of a client's network.
func network(client netip.Addr) string {
	finder, err := clientip.New(clientip.Options{})
	if err != nil {
		return err.Error()
	}
	return finder.Group(client)
}

// keyed returns limits of each client's network, if they have no key.
func keyed(l tcp.Limits) tcp.Limits {
	if l.Key == nil {
		l.Key = network
	}
	l.Scope = cmp.Or(l.Scope, "tcp")
	return l
}

// change replaces the upstream and the limits of s.
func change(s *tcp.Server, upstream string, l tcp.Limits) error {
	use, err := s.Prepare(upstream, keyed(l))
	if err == nil {
		use()
	}
	return err
}

// listen returns a listener on a free port.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(l) })
	return l
}

// upstream starts a server that runs talk for each connection.
func upstream(t *testing.T, talk func(net.Conn)) string {
	t.Helper()
	l := listen(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer hangUp(c)
				talk(c)
			})
		}
	})
	t.Cleanup(func() { hangUp(l); wg.Wait() })
	return l.Addr().String()
}

// echo sends back all bytes until the connection ends or is cut: the client checks which.
func echo(c net.Conn) { _, _ = io.Copy(c, c) }

// dial connects from an address of this machine. If the connection is reset before it is
// established, it returns a closed one.
func dial(t *testing.T, l net.Listener, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", l.Addr().String())
	if errors.Is(err, syscall.ECONNRESET) {
		a, b := net.Pipe()
		hangUp(b)
		return a
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { hangUp(c) })
	return c
}

// passes reports whether a byte comes back on c.
func passes(c net.Conn) bool {
	if _, err := c.Write([]byte("x")); err != nil {
		return false
	}
	_, err := io.ReadFull(c, make([]byte, 1))
	return err == nil
}

// run starts talk for each connection.
func run(p *testkit.Pipes, talk func(net.Conn)) (stop func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := p.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer hangUp(c)
				talk(c)
			})
		}
	})
	return func() { hangUp(p); wg.Wait() }
}

// hangUp closes c, which may be closed already.
func hangUp(c io.Closer) {
	if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		panic(err)
	}
}
