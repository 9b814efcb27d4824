// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// TestShaping: bytes pass at the rate of the limit, over both directions and all connections
// of a client together, and none is lost.
func TestShaping(t *testing.T) {
	for _, c := range []struct {
		name    string
		limit   string
		clients []string
		each    int           // bytes that a client sends and gets back
		want    time.Duration // until all bytes have arrived
		within  time.Duration
	}{
		{"one", "10000B/s burst 10000", []string{"192.0.2.1"}, 50_000, 9 * time.Second, 50 * time.Millisecond},
		{"two share", "10000B/s burst 10000", []string{"192.0.2.1", "192.0.2.1"}, 25_000, 9 * time.Second, 300 * time.Millisecond},
		{"two of their own", "10000B/s burst 10000", []string{"192.0.2.1", "192.0.2.2"}, 50_000, 9 * time.Second, 50 * time.Millisecond},
		{"one network", "10000B/s burst 10000", []string{"2001:db8::1", "2001:db8::2"}, 25_000, 9 * time.Second, 300 * time.Millisecond},
		{"a fixed window", "10000B/s fixed-window", []string{"192.0.2.1"}, 50_000, 9 * time.Second, time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				up, front := testkit.NewPipes(), testkit.NewPipes()
				defer run(up, echo)()
				_, stop := serve(t, front, tcp.Options{
					Upstream: "up:1", Dial: up.Dial, Store: memstore.New(memstore.Options{}), Limits: tcp.Limits{Bytes: testkit.Plan(t, "bytes", c.limit)},
				})
				defer stop()
				data := make([]byte, c.each)
				random := rand.NewChaCha8([32]byte{2})
				_, _ = random.Read(data) // never fails
				start := time.Now()
				var wg sync.WaitGroup
				for _, from := range c.clients {
					client := front.Connect(from)
					defer hangUp(client)
					wg.Go(func() {
						if _, err := client.Write(data); err != nil {
							t.Error(err)
						}
					})
					wg.Go(func() {
						got := make([]byte, len(data))
						if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, data) {
							t.Errorf("got other bytes than were sent, %v", err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(start); took < c.want || took > c.want+c.within {
					t.Errorf("took %v; want %v to %v", took, c.want, c.want+c.within)
				}
			})
		})
	}
}

// TestShapingByAShare: while the store is unavailable bytes pass at the rate of the node's
// share, which is smaller than a chunk of the limit.
func TestShapingByAShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := remote.Wrap(testkit.Failing(errDown), remote.Options{
			Policy: sluice.FailLocal, Local: memstore.New(memstore.Options{}), Nodes: func() int { return 5 },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }() // never fails
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, echo)()
		_, stop := serve(t, front, tcp.Options{
			Upstream: "up:1", Dial: up.Dial, Store: store, Limits: tcp.Limits{Bytes: testkit.Plan(t, "bytes", "10000B/s burst 2000")},
		})
		defer stop()
		client := front.Connect("192.0.2.1")
		defer hangUp(client)
		const size = 10_000
		start := time.Now()
		go func() { _, _ = client.Write(make([]byte, size)) }() // otherwise too few bytes come back
		if _, err := io.ReadFull(client, make([]byte, size)); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took < 9*time.Second || took > 10*time.Second { // both directions, at 2,000 bytes a second
			t.Errorf("took %v, want 9 to 10 s", took)
		}
	})
}

// TestMaxDelay: a connection whose bytes would be delayed for too long is closed.
func TestMaxDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, echo)()
		_, stop := serve(t, front, tcp.Options{
			Upstream: "up:1", Dial: up.Dial, Store: memstore.New(memstore.Options{}),
			Limits: tcp.Limits{Bytes: testkit.Plan(t, "bytes", "1000B/h burst 1000")},
		})
		defer stop()
		start := time.Now()
		client := front.Connect("192.0.2.1")
		defer hangUp(client)
		go func() { _, _ = client.Write(make([]byte, 5000)) }() // it is cut off
		if got, err := io.ReadAll(client); err != nil || len(got) > 1000 {
			t.Errorf("got %d bytes, %v; want an end before 1000", len(got), err)
		}
		if took := time.Since(start); took > time.Minute {
			t.Errorf("took %v; want less than a minute", took)
		}
	})
}

// TestIdle: an idle connection ends; bytes in one direction keep it open.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, func(conn net.Conn) {
			for range 5 { // sends now and then, and receives nothing
				time.Sleep(9 * time.Minute)
				if _, err := conn.Write([]byte("x")); err != nil {
					t.Error(err)
				}
			}
			_, _ = io.Copy(io.Discard, conn) // until it is cut
		})()
		_, stop := serve(t, front, tcp.Options{Upstream: "up:1", Dial: up.Dial})
		defer stop()
		start := time.Now()
		client := front.Connect("192.0.2.1")
		defer hangUp(client)
		got, err := io.ReadAll(client)
		if took := time.Since(start); len(got) != 5 || took != 55*time.Minute {
			t.Errorf("got %q, %v after %v; want 5 bytes and an end after 55m", got, err, took)
		}
	})
}
