// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tcp_test

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway/tcp"
)

// TestChange: a change applies to new connections and to the bytes of existing ones, but not
// to their slots.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var e events
		up, front := testkit.NewPipes(), testkit.NewPipes()
		defer run(up, echo)()
		store := memstore.New(memstore.Options{})
		one := tcp.Limits{Open: sluice.SlotLimit{Cap: 1}, Bytes: testkit.Plan(t, "bytes", "1000B/s burst 1000")}
		s, stop := serve(t, front, tcp.Options{
			Upstream: "up:1", Dial: up.Dial, Store: store, SlotStore: store, OnDecision: e.add, Limits: one,
		})
		defer stop()
		first := front.Connect("192.0.2.1")
		defer hangUp(first)
		if !passes(first) || passes(front.Connect("192.0.2.1")) {
			t.Fatal("one connection, and one only, must pass at first")
		}
		two := one
		two.Open.Cap, two.Bytes = 2, testkit.Plan(t, "bytes", "100000B/s burst 1000")
		if err := change(s, "up:1", two); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		const size = 40_000
		go func() { _, _ = first.Write(make([]byte, size)) }() // the echo is read below
		if _, err := io.ReadFull(first, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%d bytes there and back took %v under a limit of 100000 a second", size, took)
		}
		second := front.Connect("192.0.2.1")
		defer hangUp(second)
		if !passes(second) {
			t.Error("a second connection is denied, though two may be open")
		}
		if err := change(s, "up:1", tcp.Limits{Open: sluice.SlotLimit{Cap: 1}}); err != nil {
			t.Fatal(err)
		}
		if !passes(first) || !passes(second) {
			t.Error("a connection that is there was cut for a limit that was lowered")
		}
		hangUp(first)
		synctest.Wait()
		if passes(front.Connect("192.0.2.1")) {
			t.Error("a second connection passes, though one may be open")
		}
		if err := change(s, "up:1", tcp.Limits{}); err != nil {
			t.Fatal(err)
		}
		third := front.Connect("192.0.2.1")
		defer hangUp(third)
		if !passes(third) {
			t.Error("a connection is denied without limits")
		}
		hangUp(second)
		synctest.Wait()
		if err := change(s, "up:1", one); err != nil {
			t.Fatal(err)
		}
		fourth := front.Connect("192.0.2.1")
		defer hangUp(fourth)
		if !passes(fourth) {
			t.Error("the slot of a connection that has ended under other limits was not given back")
		}
	})
}

// TestChangeRefuses: an invalid change changes nothing.
func TestChangeRefuses(t *testing.T) {
	var e events
	l := listen(t)
	s, stop := serve(t, l, tcp.Options{
		Upstream: upstream(t, echo), Store: memstore.New(memstore.Options{Now: stopped}), OnDecision: e.add,
		Limits: tcp.Limits{Rate: testkit.Plan(t, "rate", "one: 1/min")},
	})
	err := change(s, "nowhere", tcp.Limits{Open: sluice.SlotLimit{Cap: -1}})
	if err == nil {
		t.Fatal("got no error")
	}
	for i, want := range []bool{true, false} {
		if got := passes(dial(t, l, "127.0.0.1")); got != want {
			t.Errorf("connection %d passes: %v; want %v", i, got, want)
		}
	}
	stop()
}

// TestExempt: exempt clients have no limits, and each other network has a budget of its own.
func TestExempt(t *testing.T) {
	var e events
	store := memstore.New(memstore.Options{Now: stopped})
	l := listen(t)
	_, stop := serve(t, l, tcp.Options{
		Upstream: upstream(t, echo), Store: store, SlotStore: store, OnDecision: e.add,
		Limits: tcp.Limits{
			Rate: testkit.Plan(t, "rate", "one: 1/min"), Open: sluice.SlotLimit{Cap: 1}, Bytes: testkit.Plan(t, "bytes", "256B/h"),
			Key:    func(a netip.Addr) string { return a.String() },
			Exempt: func(a netip.Addr) bool { return a == netip.MustParseAddr("127.0.0.9") },
		},
	})
	var conns []net.Conn
	for i, c := range []struct {
		from string
		want bool
	}{{"127.0.0.1", true}, {"127.0.0.1", false}, {"127.0.0.9", true}, {"127.0.0.9", true}} {
		conn := dial(t, l, c.from)
		conns = append(conns, conn)
		if got := passes(conn); got != c.want {
			t.Errorf("connection %d from %s passes: %v; want %v", i, c.from, got, c.want)
		}
	}
	for range 300 { // bytes, and as many back
		if !passes(conns[3]) {
			t.Fatal("bytes of one who is exempt were delayed")
		}
	}
	stop()
}
