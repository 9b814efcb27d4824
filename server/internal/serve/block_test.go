// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// onBothStores runs a test in memory, under a clock that stands still, and on Redis.
func onBothStores(t *testing.T, run func(t *testing.T, store string)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { run(t, "") })
	t.Run("redis", func(t *testing.T) {
		run(t, fmt.Sprintf("store: {redis: {url: %q}}\n", redistest.Start(t, redistest.Redis(t)).URL()))
	})
}

// TestBlock: a client with enough denials is denied for the time of the block, and the answer,
// the metrics and the page tell that from other denials.
func TestBlock(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		s := servetest.Start(t, fmt.Sprintf("upstream: %q\nfields: both\n%srules: [{name: api, by: header.X-User, limits: 2/day sliding-log, block: 30day after 3 denials/day}]\n",
			servetest.Named(t, "up"), store), servetest.Stopped)
		const day, month = 24 * 3600, 30 * 24 * 3600
		ask := func(status, least, most int) servetest.Answer {
			t.Helper()
			got := s.Get(t, "/", "X-User", "ada")
			after, _ := strconv.Atoi(got.Header.Get("Retry-After"))
			if got.Status != status || after < least || after > most {
				t.Fatalf("got %d, Retry-After %d, want %d and %d to %d: %s", got.Status, after, status, least, most, got.Body)
			}
			return got
		}
		for range 2 {
			if got := ask(200, 0, 0); got.Header.Get("Ratelimit-Policy") != `"api";q=2;w=86400` || !strings.HasPrefix(got.Header.Get("Ratelimit"), `"api";`) {
				t.Errorf("allowed: got %v", got.Header)
			}
		}
		for range 2 {
			testkit.Contains(t, ask(429, day-60, day).Body, `the quota of the limit \"api\" is used up`)
		}
		for range 5 { // the third denial blocks, and further requests do not prolong the block
			got := ask(429, month-60, month)
			if !strings.Contains(got.Body, `after too many denied requests the limit \"api/block.day\" denies all; retry after `) || !strings.Contains(got.Body, `"violated-policies":["api/block.day"`) {
				t.Errorf("blocked: got %s", got.Body)
			}
			for field, want := range map[string]string{
				"Ratelimit":             `"api/block.day";r=0;t=` + got.Header.Get("Retry-After"),
				"Ratelimit-Policy":      `"api";q=2;w=86400`,
				"X-Ratelimit-Limit":     "0",
				"X-Ratelimit-Remaining": "0",
				"X-Ratelimit-Reset":     got.Header.Get("Retry-After"),
			} {
				if got.Header.Get(field) != want {
					t.Errorf("blocked: %s is %q, want %q", field, got.Header.Get(field), want)
				}
			}
		}
		s.Want(t, 200, "/", "X-User", "bob")
		all := s.Metrics(t)
		if n := all[`sluice_decisions_total{limit="block.day",scope="api",verdict="denied"}`]; n != 5 {
			t.Errorf("%v requests were blocked by the metric, want 5", n)
		}
		if n := all[`sluice_decisions_total{limit="sliding-log.day",scope="api",verdict="denied"}`]; n != 2 {
			t.Errorf("%v requests were denied by the limit by the metric, want 2", n)
		}
		testkit.Contains(t, s.Get(t, "/.well-known/ratelimit", "X-User", "ada").Body, `"name":"api/block.day","quota":0`)
		if own := s.Get(t, "/.well-known/ratelimit", "X-User", "bob").Body; strings.Contains(own, "block") {
			t.Errorf("another client's own limits are %s", own)
		}

		// A look at the key counts nothing, and a reset lets it in.
		if free := servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?header.X-User=bob").Body; !strings.Contains(free, `"words": "not blocked`) || strings.Contains(free, strconv.FormatInt(sluice.MaxQuota, 10)) {
			t.Errorf("another client's key is %s", free)
		}
		for path, body := range map[string]string{
			"/v1/explain": `{"url":"/","headers":{"X-User":["bob"]}}`,
			"/v1/key/add": `{"parts":{"header.X-User":"bob"},"units":1,"author":"eve"}`,
		} {
			got := s.Ask(t, http.MethodPost, path, body)
			if got.Status != http.StatusOK || strings.Contains(got.Body, fmt.Sprintf(`"remaining": %d`, int64(sluice.MaxQuota))) {
				t.Errorf("%s: %d %s", path, got.Status, got.Body)
			}
		}
		states := servetest.Document[admin.KeyStates](t, s, "/v1/key?header.X-User=ada")
		if len(states.Keys) != 1 || len(states.Keys[0].Limits) != 2 {
			t.Fatalf("the key is %+v", states)
		}
		if words := states.Keys[0].Limits[1].Words; !strings.HasPrefix(words, "blocked for another ") {
			t.Errorf("the operator reads %q", words)
		}
		if got := s.Ask(t, http.MethodPost, "/v1/key/reset", `{"parts":{"header.X-User":"ada"},"author":"eve"}`); got.Status != http.StatusOK {
			t.Fatalf("reset: %d %s", got.Status, got.Body)
		}
		ask(200, 0, 0)
	})
}

// TestBlockEnds: a block ends to the µs in memory; on Redis, by its clock, once it is over.
func TestBlockEnds(t *testing.T) {
	t.Parallel()
	const rule = "rules: [{name: api, by: ip, limits: 1/%s sliding-log, block: %s after 1 denial/%s}]\n"
	t.Run("memory", func(t *testing.T) {
		var passed atomic.Int64
		s := servetest.Start(t, fmt.Sprintf("upstream: %q\n"+rule, servetest.Named(t, "up"), "s", "10min", "s"), func(o *serve.Options) {
			o.Now = func() time.Time { return servetest.FixedClock().Add(time.Duration(passed.Load())) }
		})
		for _, c := range []struct {
			at     time.Duration
			status int
			after  string
		}{
			{0, 200, ""}, {0, 429, "600"}, {time.Minute, 429, "540"}, {10*time.Minute - time.Microsecond, 429, "1"}, {10 * time.Minute, 200, ""},
		} {
			passed.Store(int64(c.at))
			if got := s.Get(t, "/"); got.Status != c.status || got.Header.Get("Retry-After") != c.after {
				t.Errorf("after %v: got %d, Retry-After %q, want %d and %q", c.at, got.Status, got.Header.Get("Retry-After"), c.status, c.after)
			}
		}
	})
	t.Run("redis", func(t *testing.T) {
		server := redistest.Start(t, redistest.Redis(t))
		s := servetest.Start(t, fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\n"+rule, servetest.Named(t, "up"), server.URL(), "100ms", "1s", "100ms"))
		testkit.Until(t, "a block", func() bool { return s.Get(t, "/").Header.Get("Ratelimit") == `"api/block.100ms";r=0;t=1` })
		testkit.Until(t, "its end", func() bool { return s.Get(t, "/").Status == 200 })
	})
}

// TestBlockOfWhoLeaves: a client that hangs up before its answer is counted, unless it left
// before the store was called: then nothing was decided.
func TestBlockOfWhoLeaves(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		s := servetest.Start(t, fmt.Sprintf("upstream: %q\n%srules: [{name: api, by: ip, limits: 1/day sliding-log, block: 30day after 4 denials/day}]\n", servetest.Named(t, "up"), store), servetest.Stopped)
		s.Get(t, "/")
		testkit.Until(t, "a block", func() bool {
			for range 10 {
				askAndLeave(t, s)
				resetStream(t, s)
			}
			return strings.Contains(servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?ip=127.0.0.1").Body, "blocked for another ")
		})
	})
}

// askAndLeave sends a request and closes the connection at once.
func askAndLeave(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	conn := servetest.Dial(t, r.URL, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
}

// resetStream begins a request over HTTP/2 and cancels it at once.
func resetStream(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	req := servetest.Request(ctx, t, http.MethodGet, r.URL, http.NoBody)
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

// TestBlockOverReloads: a blocked client stays blocked under other limits, under another
// block, and after the first file's return.
func TestBlockOverReloads(t *testing.T) {
	t.Parallel()
	onBothStores(t, func(t *testing.T, store string) {
		up := servetest.Named(t, "up")
		file := func(limits, block string) string {
			return fmt.Sprintf("upstream: %q\n%srules: [{name: api, by: ip, limits: %s, block: \"b: %s\"}]\n", up, store, limits, block)
		}
		s := servetest.Start(t, file("1/day sliding-log", "30day after 2 denials/day"), servetest.Stopped)
		for range 3 {
			s.Get(t, "/")
		}
		for _, c := range [][2]string{
			{"1000/s", "30day after 2 denials/day"},
			{"1000/s", "1s after 2 denials/day"},
			{"1000/s", "1s after 500 denials/s"},
			{"1000/s", "1s after 1 denial/366day"},
			{"1/day sliding-log", "30day after 2 denials/day"},
		} {
			s.ChangeTo(t, file(c[0], c[1]))
			if got := s.Get(t, "/"); got.Status != 429 || !strings.HasPrefix(got.Header.Get("Ratelimit"), `"api/b";r=0;t=`) {
				t.Errorf("under %v: got %d %v", c, got.Status, got.Header)
			}
		}
	})
}
