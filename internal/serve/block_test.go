// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/server/admin"
)

// onBothStores runs a test with what a file says of its store: in memory under a
// clock that stands, and on Redis.
func onBothStores(t *testing.T, run func(t *testing.T, store string)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, "") })
	t.Run("redis", func(t *testing.T) {
		run(t, fmt.Sprintf("store: {redis: {url: %q}}\n", redistest.Start(t, redistest.Redis(t)).URL()))
	})
}

// TestBlock: a client that is denied often enough is denied for as long as the block says, and
// the answer, the metrics and the page distinguish that from another denial.
func TestBlock(t *testing.T) {
	onBothStores(t, func(t *testing.T, store string) {
		s := start(t, fmt.Sprintf("upstream: %q\nfields: both\n%srules: [{name: api, by: header.X-User, limits: 2/day sliding-log, block: 30day after 3 denials/day}]\n",
			named(t, "up"), store), stopped)
		const day, month = 24 * 3600, 30 * 24 * 3600
		ask := func(status, least, most int) answer {
			t.Helper()
			got := s.get(t, "/", "X-User", "ada")
			after, _ := strconv.Atoi(got.header.Get("Retry-After"))
			if got.status != status || after < least || after > most {
				t.Fatalf("got %d, Retry-After %d, want %d and %d to %d: %s", got.status, after, status, least, most, got.body)
			}
			return got
		}
		for range 2 {
			if got := ask(200, 0, 0); got.header.Get("Ratelimit-Policy") != `"api";q=2;w=86400` || !strings.HasPrefix(got.header.Get("Ratelimit"), `"api";`) {
				t.Errorf("allowed: got %v", got.header)
			}
		}
		for range 2 {
			if got := ask(429, day-60, day); !strings.Contains(got.body, `the quota of the limit \"api\" is used up`) {
				t.Errorf("denied: got %s", got.body)
			}
		}
		for range 5 { // the third denial blocks, and pressing prolongs nothing
			got := ask(429, month-60, month)
			if !strings.Contains(got.body, `after too many denied requests the limit \"api/block.day\" denies all; retry after `) || !strings.Contains(got.body, `"violated-policies":["api/block.day"`) {
				t.Errorf("blocked: got %s", got.body)
			}
			for field, want := range map[string]string{
				"Ratelimit":             `"api/block.day";r=0;t=` + got.header.Get("Retry-After"),
				"Ratelimit-Policy":      `"api";q=2;w=86400`,
				"X-Ratelimit-Limit":     "0",
				"X-Ratelimit-Remaining": "0",
				"X-Ratelimit-Reset":     got.header.Get("Retry-After"),
			} {
				if got.header.Get(field) != want {
					t.Errorf("blocked: %s is %q, want %q", field, got.header.Get(field), want)
				}
			}
		}
		if got := s.get(t, "/", "X-User", "bob"); got.status != 200 {
			t.Errorf("another client: got %d", got.status)
		}
		all := s.metrics(t)
		if n := all[`sluice_decisions_total{limit="block.day",scope="api",verdict="denied"}`]; n != 5 {
			t.Errorf("%v requests were blocked by the metric, want 5", n)
		}
		if n := all[`sluice_decisions_total{limit="sliding-log.day",scope="api",verdict="denied"}`]; n != 2 {
			t.Errorf("%v requests were denied by the limit by the metric, want 2", n)
		}
		if own := s.get(t, "/.well-known/ratelimit", "X-User", "ada").body; !strings.Contains(own, `"name":"api/block.day","quota":0`) {
			t.Errorf("the client's own limits are %s", own)
		}
		if own := s.get(t, "/.well-known/ratelimit", "X-User", "bob").body; strings.Contains(own, "block") {
			t.Errorf("another client's own limits are %s", own)
		}

		// A look at the key counts nothing, and a reset lets it in.
		var states admin.KeyStates
		page := fetch(t, http.DefaultClient, s.admin+"/v1/key?header.X-User=ada")
		if err := json.Unmarshal([]byte(page.body), &states); err != nil || len(states.Keys) != 1 || len(states.Keys[0].Limits) != 2 {
			t.Fatalf("the key is %s", page.body)
		}
		if words := states.Keys[0].Limits[1].Words; !strings.HasPrefix(words, "blocked for another ") {
			t.Errorf("the operator reads %q", words)
		}
		if got := s.ask(t, http.MethodPost, "/v1/key/reset", `{"parts":{"header.X-User":"ada"},"author":"eve"}`); got.status != http.StatusOK {
			t.Fatalf("reset: %d %s", got.status, got.body)
		}
		ask(200, 0, 0)
	})
}

// TestBlockEnds: to the µs in memory; on Redis, by its clock, once it is over.
func TestBlockEnds(t *testing.T) {
	const rule = "rules: [{name: api, by: ip, limits: 1/%s sliding-log, block: %s after 1 denial/%s}]\n"
	t.Run("memory", func(t *testing.T) {
		var passed atomic.Int64
		s := start(t, fmt.Sprintf("upstream: %q\n"+rule, named(t, "up"), "s", "10min", "s"), func(o *Options) {
			o.Now = func() time.Time { return fixedClock().Add(time.Duration(passed.Load())) }
		})
		for _, c := range []struct {
			at     time.Duration
			status int
			after  string
		}{
			{0, 200, ""}, {0, 429, "600"}, {time.Minute, 429, "540"}, {10*time.Minute - time.Microsecond, 429, "1"}, {10 * time.Minute, 200, ""},
		} {
			passed.Store(int64(c.at))
			if got := s.get(t, "/"); got.status != c.status || got.header.Get("Retry-After") != c.after {
				t.Errorf("after %v: got %d, Retry-After %q, want %d and %q", c.at, got.status, got.header.Get("Retry-After"), c.status, c.after)
			}
		}
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t, redistest.Redis(t))
		s := start(t, fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\n"+rule, named(t, "up"), server.URL(), "100ms", "1s", "100ms"))
		until(t, "a block", func() bool { return s.get(t, "/").header.Get("Ratelimit") == `"api/block.100ms";r=0;t=1` })
		until(t, "its end", func() bool { return s.get(t, "/").status == 200 })
	})
}

// TestBlockOfWhoLeaves: a client that hangs up before it is answered is counted,
// unless it is gone before the store is asked: then nothing was decided.
func TestBlockOfWhoLeaves(t *testing.T) {
	onBothStores(t, func(t *testing.T, store string) {
		s := start(t, fmt.Sprintf("upstream: %q\n%srules: [{name: api, by: ip, limits: 1/day sliding-log, block: 30day after 4 denials/day}]\n", named(t, "up"), store), stopped)
		s.get(t, "/")
		until(t, "a block", func() bool {
			for range 10 {
				s.askAndLeave(t)
				s.resetStream(t)
			}
			return strings.Contains(fetch(t, http.DefaultClient, s.admin+"/v1/key?ip=127.0.0.1").body, "blocked for another ")
		})
	})
}

// askAndLeave sends a request and closes the connection at once.
func (r *running) askAndLeave(t *testing.T) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// resetStream begins a request over HTTP/2 and cancels it at once.
func (r *running) resetStream(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if resp, err := speaking(t, true).Do(req); err == nil {
			_ = resp.Body.Close()
		}
	}()
	cancel()
	<-ended
}

// TestBlockOverReloads: neither other limits, nor another block, nor back again let
// a blocked client in.
func TestBlockOverReloads(t *testing.T) {
	onBothStores(t, func(t *testing.T, store string) {
		up := named(t, "up")
		file := func(limits, block string) string {
			return fmt.Sprintf("upstream: %q\n%srules: [{name: api, by: ip, limits: %s, block: \"b: %s\"}]\n", up, store, limits, block)
		}
		s := start(t, file("1/day sliding-log", "30day after 2 denials/day"), stopped)
		for range 3 {
			s.get(t, "/")
		}
		for _, c := range [][2]string{
			{"1000/s", "30day after 2 denials/day"},
			{"1000/s", "1s after 2 denials/day"},
			{"1000/s", "1s after 500 denials/s"},
			{"1000/s", "1s after 1 denial/366day"},
			{"1/day sliding-log", "30day after 2 denials/day"},
		} {
			before := s.hash(t)
			s.change(t, file(c[0], c[1]), "active since")
			until(t, "the next version", func() bool { return s.hash(t) != before })
			if got := s.get(t, "/"); got.status != 429 || !strings.HasPrefix(got.header.Get("Ratelimit"), `"api/b";r=0;t=`) {
				t.Errorf("under %v: got %d %v", c, got.status, got.header)
			}
		}
	})
}
