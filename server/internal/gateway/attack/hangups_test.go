// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"fmt"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestHangUps: a client that leaves before the answer gets no more requests processed than one
// that stays. An unseen answer counts. The upstream takes 100 ms for each, and does not notice
// the leaving.
func TestHangUps(t *testing.T) {
	t.Parallel()
	const tries = 25
	type rule struct {
		name, yaml string
		answer     string // of the upstream
		most       int    // requests that it processes
	}
	rules := []rule{
		{"every request", "limits: 5/15min sliding-log", "200 100 0", 5},
		{"failed log-ins", "limits: 5/15min sliding-log, when: {response: [401, 403]}", "401 100 0", 6},
		{"failed log-ins, held", "limits: 5/15min sliding-log, when: {response: [401, 403], charge: first}", "401 100 0", 5},
		{"successes", "limits: 5/15min sliding-log, when: {response: [200]}", "200 100 0", 6},
		{"a cost that is estimated at its most", "limits: 500/15min sliding-log, cost: {response_header: X-Cost, most: 100, estimate: 100}", "200 100 100", 5},
	}
	type row struct {
		rule
		name, version, path string
	}
	var rows []row
	yaml := ""
	for i, r := range rules {
		yaml += fmt.Sprintf("  - {name: r%d, match: {path: /r%d}, by: ip, %s}\n", i, i, r.yaml)
		for _, v := range []string{"HTTP/1.1", "HTTP/2", "HTTP/2, reset"} {
			rows = append(rows, row{r, r.name + " by " + v, v, fmt.Sprintf("/r%d", i)})
		}
	}
	g, u := behind(t, `rules:
%s`, yaml)
	var all sync.WaitGroup
	for i, r := range rows { // in parallel, as they only wait
		all.Go(func() {
			h := hanger{g.client(address()), u, number("hangup", i), r.version, r.path, r.answer}
			for range tries {
				h.hangUp(t)
				// One at a time, so that the number is exact.
				testkit.Until(t, "the upstream to be done", func() bool { return u.idle(h.row) })
			}
		})
	}
	all.Wait()
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			row := number("hangup", i)
			if got := len(u.of(row)); got > r.most {
				t.Errorf("%d requests were processed, want %d at most", got, r.most)
			}
		})
	}
}

// hanger is a client that leaves.
type hanger struct {
	client
	u                          *upstream
	row, version, path, answer string
}

// hangUp sends a request and leaves as soon as it has arrived at the upstream, or is answered.
func (h *hanger) hangUp(t *testing.T) {
	t.Helper()
	before := len(h.u.of(h.row))
	answered := make(chan struct{})
	var leave func()
	if h.version == "HTTP/1.1" {
		conn := h.dial(t)
		h.write(t, conn, "GET "+h.path+" HTTP/1.1\r\nHost: x\r\nX-Row: "+h.row+"\r\nX-Answer: "+h.answer+"\r\n\r\n")
		go func() {
			defer close(answered)
			_, _ = readReply(bufio.NewReader(conn)) // it may be cut off by the test itself
		}()
		leave = func() { _ = conn.Close() } // never fails
	} else {
		conn := h.http2(t)
		stream := conn.open(ended, block(":method", "GET", ":scheme", "http", ":authority", "x", ":path", h.path, "x-row", h.row, "x-answer", h.answer))
		go func() {
			defer close(answered)
			conn.status(t, stream)
		}()
		leave = func() {
			if h.version == "HTTP/2, reset" { // the connection stays
				conn.frame(frameReset, 0, stream, []byte{0, 0, 0, 8})
				return
			}
			_ = conn.Close() // never fails
		}
	}
	testkit.Until(t, "the request to arrive or be answered", func() bool {
		select {
		case <-answered:
			return true
		default:
			return len(h.u.of(h.row)) > before
		}
	})
	leave()
}

// TestHangUpsBeforeAnUpstreamThatIsDown: units of requests that never arrived are refunded, so
// that nobody is denied because the upstream is down.
func TestHangUpsBeforeAnUpstreamThatIsDown(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{
		"when: {response: [401, 403]}",
		"when: {response: [401, 403], charge: first}",
		"when: {response: [200], charge: first}",
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			g := start(t, fmt.Sprintf(`
listen: {address: "127.0.0.1:0", proxy_protocol: 127.0.0.0/8}
admin: 127.0.0.1:0
upstream: http://127.0.0.1:1
rules: [{name: a, by: ip, limits: 5/15min sliding-log, %s}]
`, rule))
			c := g.client(address())
			for i := range 25 {
				if got := c.get(t, "down", "/"); got.status != 502 {
					t.Fatalf("request %d: got %d, want 502", i+1, got.status)
				}
			}
		})
	}
}
