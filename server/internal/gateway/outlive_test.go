// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/server/internal/gateway"
)

// recordedSlots records the requests to slots.
type recordedSlots struct {
	sluice.SlotStore
	renewed, released chan struct{}
}

func (s *recordedSlots) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	d, err := s.SlotStore.Slot(ctx, req)
	switch req.Op {
	case sluice.SlotRenew:
		s.renewed <- struct{}{}
	case sluice.SlotRelease:
		s.released <- struct{}{}
	default:
	}
	return d, err
}

// TestSlotOutlivesItsClient: under two nested limits, a slot is renewed while the upstream
// processes a request whose client has left, and is free when it is done.
func TestSlotOutlivesItsClient(t *testing.T) {
	there, release := make(chan struct{}, 1), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		there <- struct{}{}
		<-release
	}))
	defer upstream.Close()
	next, err := gateway.New(upstream.URL, gateway.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	var all [2]*recordedSlots
	var handler http.Handler = next
	for i, name := range []string{"inner", "outer"} {
		store := memstore.New(memstore.Options{Now: testkit.NewClock().Now}) // no slot expires if its renewal is late
		all[i] = &recordedSlots{SlotStore: store, renewed: make(chan struct{}, 10_000), released: make(chan struct{}, 10)}
		handler = newMiddleware(t, httplimit.Options{
			Policy: rules(t, "  - {name: "+name+", by: ip, in_flight: {cap: 1, ttl: 1s}}"), Store: store, Slots: all[i],
		}).Wrap(handler)
	}
	s := &site{over: make(chan struct{}, 10)}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { s.over <- struct{}{} }()
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	s.url = server.URL
	client := s.client(t, false)
	s.hangUp(t, client, there) // which waits for the end of the handler
	for _, slots := range all {
		<-slots.renewed
		<-slots.renewed // one at least without a client
	}
	if got := s.get(t, client); got != http.StatusTooManyRequests {
		t.Errorf("while the upstream works: status %d, want 429", got)
	}
	close(release)
	for _, slots := range all {
		<-slots.released
	}
	if got := s.get(t, client); got != http.StatusOK {
		t.Errorf("when the upstream is done: status %d, want 200", got)
	}
}

// TestSwitchEndsWithItsClient: after a switch of protocols the client's leave ends the
// exchange and frees its slot.
func TestSwitchEndsWithItsClient(t *testing.T) {
	var open atomic.Int32
	ended := make(chan struct{}, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		open.Add(1)
		defer func() { ended <- struct{}{} }()
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"); err != nil {
			t.Error(err)
		}
		_, _ = io.Copy(io.Discard, conn) // ends with the client, in whichever way
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}))
	defer upstream.Close()
	s := startGateway(t, "  - {name: a, by: ip, in_flight: 1}", upstream.URL, gateway.Options{})
	for range 3 {
		conn := s.dial(t)
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		status, err := bufio.NewReader(conn).ReadString('\n')
		if err != nil || !strings.Contains(status, "101") {
			t.Fatalf("answered %q, %v", status, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		<-ended
		<-s.over
	}
	if got := open.Load(); got != 3 {
		t.Errorf("%d were passed on, want 3", got)
	}
}
