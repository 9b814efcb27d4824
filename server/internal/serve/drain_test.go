// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

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

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// inFront returns a configuration with one limit for each user.
func inFront(upstream, limit string) string {
	return fmt.Sprintf("upstream: %q\nrules: [{name: a, by: query.userId, missing: share, limits: %s}]\n", upstream, limit)
}

// untilNotReady polls /readyz until it reports not ready.
func untilNotReady(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	testkit.Until(t, "the gateway not to be ready", func() bool { return servetest.Ready(t, r).Status == http.StatusServiceUnavailable })
}

// TestDrainLosesNothing: a request from before the signal is answered, no new one is accepted,
// and /readyz reports the drain meanwhile.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	up := servetest.NewHolding(t)
	r := servetest.Start(t, inFront(up.URL, "1000/min"))
	const n = 20
	var clients sync.WaitGroup
	answers := make(chan servetest.Answer, n)
	for range n {
		clients.Go(func() { answers <- r.Get(t, "/") })
	}
	for range n {
		<-up.Arrived
	}
	if a := servetest.Ready(t, r); a.Status != http.StatusOK {
		t.Errorf("readyz before: %d", a.Status)
	}
	r.Stop()
	untilNotReady(t, r)
	servetest.UntilRefused(t, strings.TrimPrefix(r.URL, "http://"))
	select {
	case err := <-r.Ended:
		t.Fatalf("it has ended with requests unanswered: %v", err)
	default:
	}
	servetest.Want(t, http.StatusOK, http.DefaultClient, r.Admin+"/healthz")
	close(up.Release)
	clients.Wait()
	for range n {
		if a := <-answers; a.Status != http.StatusOK || a.Body != "done" {
			t.Errorf("answer %d %q", a.Status, a.Body)
		}
	}
	r.End(t)
}

// TestDrainEnds: a request that exceeds the drain time does not keep the gateway from
// stopping, and its client gets an error.
func TestDrainEnds(t *testing.T) {
	t.Parallel()
	up := servetest.NewHolding(t)
	r := servetest.Start(t, inFront(up.URL, "1000/min"), func(o *serve.Options) { o.Drain = time.Millisecond })
	got := make(chan servetest.Answer, 1)
	go func() { got <- r.Get(t, "/") }()
	<-up.Arrived
	r.End(t)
	if a := <-got; a.Status != http.StatusServiceUnavailable || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("answer %d %s", a.Status, a.Body)
	}
	testkit.Contains(t, r.Logs.String(), "requests are cut off")
}

// upgraded returns a connection through the gateway that has switched protocol, to an echo.
func upgraded(t *testing.T, r *servetest.Gateway) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn := servetest.Dial(t, r.URL, "GET /?userId=u1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
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
		testkit.Closed(t, conn)
		if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
			t.Error(err)
			return
		}
		// It returns an error when the gateway stops.
		_, _ = io.Copy(conn, rw)
	}
}

// TestSwitchedConnections: a websocket passes limits and metrics, and is closed at the stop,
// as it has no end to wait for.
func TestSwitchedConnections(t *testing.T) {
	t.Parallel()
	r := servetest.Start(t, inFront(servetest.Backend(t, echo(t)), "1/min"))
	conn, br := upgraded(t, r)
	testkit.Closed(t, conn)
	for _, word := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(conn, word); err != nil {
			t.Fatal(err)
		}
		if got, err := br.ReadString('\n'); err != nil || got != word {
			t.Errorf("read %q, %v; want %q", got, err, word)
		}
	}
	r.Want(t, http.StatusTooManyRequests, "/?userId=u1")
	r.End(t)
	if rest, err := io.ReadAll(br); len(rest) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the stop: %q, %v", rest, err)
	}
	if strings.Contains(r.Logs.String(), "level=WARN") {
		t.Errorf("logged %s", r.Logs)
	}
}
