// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// holding is an upstream that answers on a signal.
type holding struct {
	url     string
	arrived chan struct{} // one for each request
	release chan struct{} // closed to answer all
}

func newHolding(t *testing.T) *holding {
	t.Helper()
	h := &holding{arrived: make(chan struct{}), release: make(chan struct{})}
	h.url = backend(t, func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
		case <-r.Context().Done():
			return
		}
		if _, err := io.WriteString(w, "done"); err != nil {
			t.Error(err)
		}
	})
	return h
}

// inFront returns a configuration of one limit for each user.
func inFront(upstream, limit string) string {
	return fmt.Sprintf("upstream: %q\nrules: [{name: a, by: query.userId, missing: share, limits: %s}]\n", upstream, limit)
}

// untilNotReady asks /readyz until it says so.
func untilNotReady(t *testing.T, r *running) {
	t.Helper()
	for t.Context().Err() == nil {
		if a := fetch(t, http.DefaultClient, r.admin+"/readyz"); a.status == http.StatusServiceUnavailable {
			return
		}
	}
}

// untilRefused dials until nobody listens any more.
func untilRefused(t *testing.T, addr string) {
	t.Helper()
	for t.Context().Err() == nil {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil && !errors.Is(err, syscall.ECONNRESET) { // closed between its two ends' handshake
			t.Error(err)
			return
		}
	}
}

// TestDrainLosesNothing: a request that started before the signal is answered, nothing
// new is let in, and a client that asks for readiness learns of it meanwhile.
func TestDrainLosesNothing(t *testing.T) {
	up := newHolding(t)
	r := start(t, inFront(up.url, "1000/min"))
	const n = 20
	var clients sync.WaitGroup
	answers := make(chan answer, n)
	for range n {
		clients.Go(func() { answers <- r.get(t, "/") })
	}
	for range n {
		<-up.arrived
	}
	if a := fetch(t, http.DefaultClient, r.admin+"/readyz"); a.status != http.StatusOK {
		t.Errorf("readyz before: %d", a.status)
	}
	r.stop()
	untilNotReady(t, r)
	untilRefused(t, strings.TrimPrefix(r.url, "http://"))
	select {
	case err := <-r.ended:
		t.Fatalf("it has ended with requests unanswered: %v", err)
	default:
	}
	if a := fetch(t, http.DefaultClient, r.admin+"/healthz"); a.status != http.StatusOK {
		t.Errorf("healthz while draining: %d", a.status)
	}
	close(up.release)
	clients.Wait()
	for range n {
		if a := <-answers; a.status != http.StatusOK || a.body != "done" {
			t.Errorf("answer %d %q", a.status, a.body)
		}
	}
	r.end(t)
}

// TestDrainEnds: a request that does not end within the drain time does not
// keep the gateway from stopping; its client sees why.
func TestDrainEnds(t *testing.T) {
	up := newHolding(t)
	r := start(t, inFront(up.url, "1000/min"), func(o *Options) { o.Drain = time.Millisecond })
	got := make(chan answer, 1)
	go func() { got <- r.get(t, "/") }()
	<-up.arrived
	r.end(t)
	if a := <-got; a.status != http.StatusServiceUnavailable || a.header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answer %d %s", a.status, a.body)
	}
	if !strings.Contains(r.logs.String(), "requests are cut off") {
		t.Errorf("logged %s", r.logs)
	}
}

// upgraded returns a connection through the gateway that has switched protocol
// and echoes.
func upgraded(t *testing.T, r *running) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "GET /?userId=u1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Ratelimit") == "" {
		t.Fatalf("status %d, header %v", resp.StatusCode, resp.Header)
	}
	return conn, br
}

func echo(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		closeAtEnd(t, conn)
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		// It ends with an error where the gateway is stopped.
		_, _ = io.Copy(conn, rw)
	}
}

// TestSwitchedConnections: a websocket passes limits and metrics, and is closed
// at the stop, as it has no end to wait for.
func TestSwitchedConnections(t *testing.T) {
	r := start(t, inFront(backend(t, echo(t)), "1/min"))
	conn, br := upgraded(t, r)
	closeAtEnd(t, conn)
	for _, word := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		if got, err := br.ReadString('\n'); err != nil || got != word {
			t.Errorf("read %q, %v; want %q", got, err, word)
		}
	}
	if a := r.get(t, "/?userId=u1"); a.status != http.StatusTooManyRequests {
		t.Errorf("a second: %d", a.status)
	}
	r.end(t)
	if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the stop: %q, %v", rest, err)
	}
	if strings.Contains(r.logs.String(), "level=WARN") {
		t.Errorf("logged %s", r.logs)
	}
}
