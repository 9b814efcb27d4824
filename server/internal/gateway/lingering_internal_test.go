// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// lingers returns both ends of a connection that is being closed after a request with an
// unread body, and a channel that is closed once it is.
func lingers(ctx context.Context, l *Lingering) (client, conn net.Conn, closed chan struct{}) {
	client, server := net.Pipe()
	conn = &lingeringConn{Conn: server, of: l}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	answeredEarly(r.WithContext(l.ConnContext(ctx, &memoryConn{Conn: conn})))
	closed = make(chan struct{})
	go func() {
		_ = conn.Close()
		close(closed)
	}()
	return client, conn, closed
}

// drip sends one part after each pause until the connection is closed.
func drip(client net.Conn, part []byte, pause time.Duration) {
	for err := error(nil); err == nil; {
		time.Sleep(pause)
		_, err = client.Write(part)
	}
}

// TestLingeringIsBounded: whatever a client sends, its connection is closed in time.
func TestLingeringIsBounded(t *testing.T) {
	for _, c := range []struct {
		name  string
		send  func(client net.Conn)
		takes time.Duration
		want  LingeringStats
	}{
		{"nothing", func(net.Conn) {}, 5 * time.Second, LingeringStats{Bound: 1}},
		{"a byte each 4 seconds", func(c net.Conn) { drip(c, []byte("x"), 4*time.Second) }, 30 * time.Second, LingeringStats{Bound: 1}},
		{"a byte, and nothing more", func(c net.Conn) { _, _ = c.Write([]byte("x")) }, 5 * time.Second, LingeringStats{Bound: 1}},
		{"without end", func(c net.Conn) { drip(c, make([]byte, 1<<20), 0) }, 0, LingeringStats{Bound: 1}},
		{"all, and leaves", func(c net.Conn) { _, _ = c.Write(make([]byte, 1<<20)); _ = c.Close() }, 0, LingeringStats{Client: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLingering(1)
				began := time.Now()
				client, _, closed := lingers(t.Context(), l)
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					c.send(client)
				}()
				<-closed
				if took := time.Since(began); took != c.takes {
					t.Errorf("closed after %v, want %v", took, c.takes)
				}
				if got := l.Stats(); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				<-sent
				_ = client.Close()
			})
		})
	}
}

// TestLingeringIsBoundedInNumber: the number of lingering connections is bounded. Above it the
// oldest is closed, and after a smaller bound as many of the oldest.
func TestLingeringIsBoundedInNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLingering(2)
		expect := func(want LingeringStats) {
			t.Helper()
			synctest.Wait()
			if got := l.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		_, _, firstClosed := lingers(t.Context(), l)
		expect(LingeringStats{Open: 1})
		second, _, secondClosed := lingers(t.Context(), l)
		expect(LingeringStats{Open: 2})
		_, _, thirdClosed := lingers(t.Context(), l)
		<-firstClosed
		expect(LingeringStats{Open: 2, Full: 1})
		_ = second.Close()
		<-secondClosed
		expect(LingeringStats{Open: 1, Client: 1, Full: 1})
		fourth, _, fourthClosed := lingers(t.Context(), l)
		expect(LingeringStats{Open: 2, Client: 1, Full: 1})
		l.Resize(0)
		<-thirdClosed
		expect(LingeringStats{Open: 1, Client: 1, Full: 2})
		_ = fourth.Close()
		<-fourthClosed
		expect(LingeringStats{Client: 2, Full: 2})
	})
}

// TestLingeringEndsSoonInADrain: during a stop no connection lingers for more than 5 s in all,
// whatever its client sends.
func TestLingeringEndsSoonInADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLingering(8)
		began := time.Now()
		type lingering struct {
			name  string
			took  chan time.Duration
			takes time.Duration // since the first began
		}
		var all []lingering
		var clients sync.WaitGroup
		begin := func(name string, takes, pause time.Duration) {
			client, _, closed := lingers(t.Context(), l)
			took := make(chan time.Duration, 1)
			clients.Go(func() { drip(client, []byte("x"), pause) })
			go func() {
				<-closed
				took <- time.Since(began)
				_ = client.Close()
			}()
			all = append(all, lingering{name, took, takes})
		}
		begin("for long", 10*time.Second, time.Second)
		time.Sleep(8 * time.Second)
		begin("for 2 s", 13*time.Second, time.Second)
		begin("for 2 s, silent", 13*time.Second, time.Minute)
		time.Sleep(2 * time.Second)
		l.Drain()
		time.Sleep(time.Second)
		begin("since then", 16*time.Second, time.Second)
		for _, c := range all {
			if took := <-c.took; took != c.takes {
				t.Errorf("%s: closed after %v, want %v", c.name, took, c.takes)
			}
		}
		if got, want := l.Stats(), (LingeringStats{Bound: 4}); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		clients.Wait()
	})
}

// TestLingeringEnds: no connection lingers after the server is closed or its context has
// ended, the only sign that a connection over TLS gets.
func TestLingeringEnds(t *testing.T) {
	for name, end := range map[string]func(conn net.Conn, cancel func()){
		"closed":    func(conn net.Conn, _ func()) { _ = conn.Close() },
		"ended":     func(_ net.Conn, cancel func()) { cancel() },
		"had ended": nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if end == nil {
					cancel()
				}
				l := NewLingering(2)
				began := time.Now()
				client, conn, closed := lingers(ctx, l)
				synctest.Wait()
				if end != nil {
					if got := l.Stats().Open; got != 1 {
						t.Errorf("%d linger, want 1", got)
					}
					end(conn, cancel)
				}
				<-closed
				if took := time.Since(began); took != 0 || l.Stats().Open != 0 {
					t.Errorf("took %v, %+v", took, l.Stats())
				}
				_ = client.Close()
			})
		})
	}
}

// TestLingeringIsForUnreadBodies: a connection that takes another request, or is of HTTP/2,
// does not linger.
func TestLingeringIsForUnreadBodies(t *testing.T) {
	l := NewLingering(1)
	_, server := net.Pipe()
	conn := &lingeringConn{Conn: server, of: l}
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r = r.WithContext(l.ConnContext(t.Context(), conn))
	r.ProtoMajor = 2
	if answeredEarly(r); conn.unread.Load() {
		t.Error("one of HTTP/2 lingers")
	}
	r.ProtoMajor = 1
	answeredEarly(r)
	if l.ConnState(conn, http.StateActive); !conn.unread.Load() {
		t.Error("one with an unread body does not linger")
	}
	if l.ConnState(&memoryConn{Conn: conn}, http.StateIdle); conn.unread.Load() {
		t.Error("an idle one lingers")
	}
}
