// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/proxyproto"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// stopped is the clock of a store, which stands still.
func stopped() time.Time { return time.Unix(1_700_000_000, 0) }

// events collects the decisions of a Server.
type events struct {
	mu  sync.Mutex
	all []string
}

func (e *events) add(ev tcp.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, fmt.Sprintf("%s %v %s", ev.Key, ev.Verdict, ev.Limit))
}

func (e *events) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.all, "; ")
}

// TestHalfClose: no byte is lost in either direction, and an end that has sent all may still
// receive.
func TestHalfClose(t *testing.T) {
	data := make([]byte, 3<<20)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(data) // never fails
	for _, c := range []struct {
		name string
		opts tcp.Options
	}{
		{"unlimited", tcp.Options{}},
		{"shaped", tcp.Options{Store: memstore.New(memstore.Options{}), Limits: tcp.Limits{Bytes: testkit.Plan(t, "bytes", "1GB/s")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			to := upstream(t, func(conn net.Conn) {
				got, err := io.ReadAll(conn) // until the client's end
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("upstream got %d bytes, %v; want the %d that were sent", len(got), err, len(data))
				}
				if _, err := conn.Write(data); err != nil {
					t.Errorf("upstream: %v", err)
				}
			})
			l := listen(t)
			c.opts.Upstream = to
			s, stop := serve(t, l, c.opts)
			client := dial(t, l, "127.0.0.1")
			if _, err := client.Write(data); err != nil {
				t.Fatal(err)
			}
			if err := client.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(client)
			if err != nil || !bytes.Equal(got, data) {
				t.Errorf("client got %d bytes, %v; want the %d that were sent", len(got), err, len(data))
			}
			stop()
			if st := s.Stats(); st.Received != int64(len(data)) || st.Sent != int64(len(data)) || st.Open != 0 || st.Accepted != 1 {
				t.Errorf("got %+v", st)
			}
		})
	}
}

// TestRate: a network's connections above the rate are refused before the upstream sees them;
// another network's are not.
func TestRate(t *testing.T) {
	var e events
	heard := make(chan struct{}, 10)
	to := upstream(t, func(c net.Conn) { heard <- struct{}{}; echo(c) })
	l := listen(t)
	s, stop := serve(t, l, tcp.Options{
		Upstream: to, Store: memstore.New(memstore.Options{Now: stopped}), OnDecision: e.add, Limits: tcp.Limits{
			Rate:  testkit.Plan(t, "connections", "per-client: 2/min"),
			Admit: func(a netip.Addr) bool { return a != netip.MustParseAddr("127.0.0.3") },
		},
	})
	for i, c := range []struct {
		from string
		want bool
	}{{"127.0.0.1", true}, {"127.0.0.1", true}, {"127.0.0.1", false}, {"127.0.0.2", true}, {"127.0.0.3", false}} {
		if got := passes(dial(t, l, c.from)); got != c.want {
			t.Errorf("connection %d from %s passes: %v; want %v", i, c.from, got, c.want)
		}
	}
	stop()
	const want = "127.0.0.1 allowed ; 127.0.0.1 allowed ; 127.0.0.1 denied-rate per-client; 127.0.0.2 allowed ; 127.0.0.3 denied-client "
	if e.String() != want {
		t.Errorf("got  %s\nwant %s", e.String(), want)
	}
	if st := s.Stats(); st.Accepted != 5 || st.Denied != 2 || len(heard) != 3 {
		t.Errorf("got %+v, and the upstream heard of %d; want 5, 2 and 3", st, len(heard))
	}
}

// TestOpen: a slot is held exactly as long as its connection, and a connection without a slot
// is not charged to the rate.
func TestOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, echo)()
		store := memstore.New(memstore.Options{})
		_, stop := serve(t, front, tcp.Options{
			Upstream: "up:1", Dial: up.Dial, SlotStore: store, Store: store, OnDecision: e.add,
			Limits: tcp.Limits{Rate: testkit.Plan(t, "rate", "few: 3/366d"), Open: sluice.SlotLimit{Cap: 2, TTL: time.Minute}},
		})
		defer stop()
		try := func() (net.Conn, bool) {
			c := front.Connect("192.0.2.1")
			if passes(c) {
				return c, true
			}
			hangUp(c)
			return nil, false
		}
		first, ok1 := try()
		second, ok2 := try()
		if !ok1 || !ok2 {
			t.Fatal("a connection was denied")
		}
		defer hangUp(second)
		if _, ok := try(); ok {
			t.Error("a third passes")
		}
		for range 10 { // an hour: sixty times the life of a lease
			time.Sleep(6 * time.Minute)
			if !passes(first) || !passes(second) {
				t.Fatal("a connection in use was cut")
			}
		}
		if _, ok := try(); ok {
			t.Error("a third passes after an hour: the leases were not renewed")
		}
		hangUp(first)
		synctest.Wait()
		third, ok := try()
		if !ok {
			t.Fatal("the slot was not given back, or the rate was charged for what was denied")
		}
		hangUp(third)
		synctest.Wait()
		if _, ok := try(); ok {
			t.Error("a fourth passes; the rate allows three")
		}
		const want = "192.0.2.1 allowed ; 192.0.2.1 allowed ; 192.0.2.1 denied-open slots; 192.0.2.1 denied-open slots; 192.0.2.1 allowed ; 192.0.2.1 denied-rate few"
		if got := e.String(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	})
}

// TestShutdown: existing connections may end by themselves, and are cut when the time is up.
func TestShutdown(t *testing.T) {
	for _, c := range []struct {
		name string
		ends time.Duration // by itself
		want error
		took time.Duration
	}{
		{"ends by itself", 5 * time.Second, nil, 5 * time.Second},
		{"is cut", time.Minute, context.DeadlineExceeded, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up, front := testkit.NewPipes(), testkit.NewPipes()
				defer run(up, echo)()
				s, _ := serve(t, front, tcp.Options{Upstream: "up:1", Dial: up.Dial})
				client := front.Connect("192.0.2.1")
				if !passes(client) {
					t.Fatal("nothing passes")
				}
				start := time.Now()
				var leaving sync.WaitGroup
				timer := time.NewTimer(c.ends)
				gone := make(chan struct{})
				leaving.Go(func() {
					defer hangUp(client)
					select {
					case <-timer.C:
						if !passes(client) {
							t.Error("nothing passes while it drains")
						}
					case <-gone:
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if err := s.Shutdown(ctx); !errors.Is(err, c.want) {
					t.Errorf("got %v; want %v", err, c.want)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v; want %v", took, c.took)
				}
				if front.Connect("192.0.2.1") != nil {
					t.Error("a connection was accepted after the end")
				}
				close(gone)
				leaving.Wait()
				if err := s.Serve(testkit.NewPipes()); !errors.Is(err, tcp.ErrServerClosed) {
					t.Errorf("Serve got %v; want %v", err, tcp.ErrServerClosed)
				}
			})
		})
	}
}

// TestMaxConnections: connections above the bound are reset until another has ended.
func TestMaxConnections(t *testing.T) {
	var e events
	l := listen(t)
	s, _ := serve(t, l, tcp.Options{Upstream: upstream(t, echo), OnDecision: e.add, Limits: tcp.Limits{MaxConnections: 1}})
	first := dial(t, l, "127.0.0.1")
	if !passes(first) {
		t.Fatal("nothing passes")
	}
	if passes(dial(t, l, "127.0.0.1")) {
		t.Error("a second passes beside the first")
	}
	if !passes(first) {
		t.Error("the first was disturbed")
	}
	hangUp(first)
	testkit.Until(t, "the first to have ended", func() bool { return s.Stats().Open == 0 })
	if !passes(dial(t, l, "127.0.0.1")) {
		t.Error("none passes after the first")
	}
}

// short is a listener of a system without descriptors for a while.
type short struct {
	*testkit.Pipes
	fails int
}

type shortageError struct{ error }

func (shortageError) Timeout() bool   { return false }
func (shortageError) Temporary() bool { return true }

func (l *short) Accept() (net.Conn, error) {
	if l.fails > 0 {
		l.fails--
		return nil, shortageError{errors.New("too many open files")}
	}
	return l.Pipes.Accept()
}

func TestAcceptBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, echo)()
		_, stop := serve(t, &short{front, 4}, tcp.Options{Upstream: "up:1", Dial: up.Dial})
		defer stop()
		start := time.Now()
		client := front.Connect("192.0.2.1")
		defer hangUp(client)
		if !passes(client) {
			t.Error("nothing passes")
		}
		if got, want := time.Since(start), (5+10+20+40)*time.Millisecond; got != want {
			t.Errorf("it took %v; want %v", got, want)
		}
	})
}

// down is a store that always fails.
type down struct{}

var errDown = errors.New("down")

func (down) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errDown
}

func (down) TakeBatch(context.Context, []sluice.Request, []sluice.Result) error { return errDown }

func (down) Slot(context.Context, sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.SlotDecision{}, errDown
}

func TestStoreDown(t *testing.T) {
	rate, bytes := testkit.Plan(t, "rate", "1/min"), testkit.Plan(t, "bytes", "1MB/min")
	for _, c := range []struct {
		name   string
		closed bool
		opts   tcp.Options
	}{
		{"rate", false, tcp.Options{Store: down{}, Limits: tcp.Limits{Rate: rate}}},
		{"rate closed", true, tcp.Options{Store: down{}, Limits: tcp.Limits{Rate: rate}}},
		{"open", false, tcp.Options{SlotStore: down{}, Limits: tcp.Limits{Open: sluice.SlotLimit{Cap: 1}}}},
		{"open closed", true, tcp.Options{SlotStore: down{}, Limits: tcp.Limits{Open: sluice.SlotLimit{Cap: 1}}}},
		{"bytes", false, tcp.Options{Store: down{}, Limits: tcp.Limits{Bytes: bytes}}},
		{"bytes closed", true, tcp.Options{Store: down{}, Limits: tcp.Limits{Bytes: bytes}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := listen(t)
			c.opts.Upstream, c.opts.FailClosed = upstream(t, echo), c.closed
			serve(t, l, c.opts)
			if got := passes(dial(t, l, "127.0.0.1")); got == c.closed {
				t.Errorf("passes: %v; want %v", got, !c.closed)
			}
		})
	}
}

// TestBehindProxy: the limits apply to the client that the proxy names.
func TestBehindProxy(t *testing.T) {
	var e events
	below := listen(t)
	l, err := proxyproto.Listen(below, proxyproto.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
	if err != nil {
		t.Fatal(err)
	}
	_, stop := serve(t, l, tcp.Options{
		Upstream: upstream(t, echo), Store: memstore.New(memstore.Options{Now: stopped}),
		Limits: tcp.Limits{Rate: testkit.Plan(t, "connections", "one: 1/min")}, OnDecision: e.add,
	})
	for i, c := range []struct {
		from, header string
		want         bool
	}{
		{"127.0.0.1", "PROXY TCP4 203.0.113.7 192.0.2.1 4711 443\r\n", true},
		{"127.0.0.1", "PROXY TCP4 203.0.113.8 192.0.2.1 4711 443\r\n", true},
		{"127.0.0.1", "PROXY TCP4 203.0.113.7 192.0.2.1 4712 443\r\n", false},
		{"127.0.0.1", "GET / HTTP/1.1\r\n\r\n", false}, // not charged to anyone
		{"127.0.0.2", "", true},
	} {
		conn := dial(t, below, c.from)
		if _, err := io.WriteString(conn, c.header); err != nil {
			t.Fatal(err)
		}
		if got := passes(conn); got != c.want {
			t.Errorf("connection %d passes: %v; want %v", i, got, c.want)
		}
	}
	stop()
	const want = "203.0.113.7 allowed ; 203.0.113.8 allowed ; 203.0.113.7 denied-rate one; 127.0.0.2 allowed "
	if e.String() != want {
		t.Errorf("got  %s\nwant %s", e.String(), want)
	}
}

func TestUpstreamDown(t *testing.T) {
	l := listen(t)
	serve(t, l, tcp.Options{Upstream: "127.0.0.1:1"})
	if passes(dial(t, l, "127.0.0.1")) {
		t.Error("something passes to an upstream that is not there")
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := tcp.New(tcp.Options{Upstream: "a:1", SlotStore: memstore.New(memstore.Options{}), Limits: keyed(tcp.Limits{Open: sluice.SlotLimit{Cap: -1}})}); err == nil {
		t.Error("a negative Cap was taken")
	}
}
