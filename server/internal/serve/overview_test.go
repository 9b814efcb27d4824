// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// overviewOf returns the overview that an admin address shows.
func overviewOf(t *testing.T, r *servetest.Gateway, query string, header ...string) (o overview.Overview, text string) {
	t.Helper()
	got := servetest.Fetch(t, http.DefaultClient, r.Admin+"/v1/overview"+query, header...)
	if got.Status != http.StatusOK {
		t.Fatalf("overview: %d %s", got.Status, got.Body)
	}
	if err := json.Unmarshal([]byte(got.Body), &o); err != nil {
		t.Fatal(err)
	}
	return o, got.Body
}

// TestOverview: one document has the outcomes of requests and the state of the program, with
// keys in clear for callers with the token only.
func TestOverview(t *testing.T) {
	t.Parallel()
	tokens := testkit.TempFile(t, "token", "0123456789abcdef0123456789abcdef\n")
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
admin: {address: 127.0.0.1:0, token_file: %q}
rules:
  - {name: api, by: header.X-User, limits: 3/min sliding-log, candidates: {one: 1/min sliding-log}}
  - {name: dry, by: ip, limits: 2/min sliding-log, mode: shadow}
  - {name: idle, match: {path: /never}, by: ip, limits: 2/min}
`, servetest.Named(t, "up"), tokens), servetest.Stopped)
	for range 5 {
		s.Get(t, "/", "X-User", "ada")
	}
	testkit.Until(t, "a tick", func() bool {
		o, _ := overviewOf(t, s, "")
		return o.Requests.Recent != nil && o.Requests.Recent.Sum().Denied == 2
	})
	o, text := overviewOf(t, s, "")
	if !o.Hidden || strings.Contains(text, "ada") || strings.Contains(text, "0123456789abcdef") {
		t.Errorf("a caller without the token reads keys, or secrets: %s", text)
	}
	if total := o.Requests.Total; total.Allowed != 3 || total.Denied != 2 || total.WouldDeny != 4 || total.Delayed+total.Degraded+total.Warned != 0 {
		t.Errorf("total: %+v", total)
	}
	if o.Requests.Recent.Step != 1 || o.Requests.Day.Step != 60 || o.Requests.Day.Sum() != o.Requests.Total {
		t.Errorf("series %+v, %+v", o.Requests.Recent, o.Requests.Day)
	}
	if len(o.Rules) != 3 || o.Rules[0].Name != "api" || o.Rules[0].Denied != 2 || o.Rules[0].Recent.Sum().Allowed != 3 || o.Rules[0].Day != nil || o.Rules[2].Recent != nil {
		t.Fatalf("rules: %+v", o.Rules)
	}
	if api, dry := o.Rules[0], o.Rules[1]; api.WouldDeny != api.Recent.Sum().WouldDeny || api.WouldDeny != api.Candidates[0].WouldDeny || api.WouldDeny == 0 || api.Evaluated != 5 || dry.WouldDeny != dry.Recent.Sum().WouldDeny {
		t.Errorf("would deny: %+v, %+v", api.RuleStatus, dry.RuleStatus)
	}
	if top := o.Rules[0].Top; len(top) != 1 || top[0].Keys[0].Hash == "" || top[0].Keys[0].Least != 2 {
		t.Errorf("top: %+v", top)
	}
	if !o.Store.Up || o.Store.Kind != "memory" || o.Store.Keys != 3 || o.Store.Asked == 0 || o.Store.P99 < o.Store.P50 || o.Store.P50 <= 0 {
		t.Errorf("store: %+v", o.Store)
	}
	if o.Config.Version != s.Hash(t) || o.Config.Rules != 3 || len(o.Config.Listeners) != 1 || o.Build.Go == "" || o.Memory.Total == 0 || o.Started.IsZero() {
		t.Errorf("system: %+v", o.System)
	}
	with, _ := overviewOf(t, s, "?rule=api", "Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	if with.Hidden || len(with.Rules) != 1 || with.Rules[0].Top[0].Keys[0].Parts["header.X-User"] != "ada" || with.Rules[0].Day.Sum().WouldDeny != 4 {
		t.Errorf("with the token: %+v", with.Rules)
	}
	for _, c := range []struct {
		path, head string
		want       int
	}{
		{"/v1/overview?rule=nope", "", http.StatusNotFound},
		{"/v1/overview", "Host: sluice.example\n", http.StatusMisdirectedRequest},
		{"/v1/overview", "Host: 192.0.2.1\n", http.StatusUnauthorized}, // not meant for this machine
		{"/v1/live", "Host: 192.0.2.1\n", http.StatusUnauthorized},
	} {
		head := c.head
		if head == "" {
			head = "Host: 127.0.0.1\n"
		}
		if got := asked(t, s.Admin, "GET "+c.path+" HTTP/1.1\n"+head); got.Status != c.want {
			t.Errorf("%s %s: got %d, want %d: %s", c.path, c.head, got.Status, c.want, got.Body)
		}
	}
}

// events reads the events of a live page until it ends.
func events(t *testing.T, r *servetest.Gateway) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	req := servetest.Request(ctx, t, http.MethodGet, r.Admin+"/v1/live", nil)
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // who reads it closes it
	if err != nil {
		t.Fatal(err)
	}
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("got %d %q", resp.StatusCode, got)
	}
	out := make(chan string, 100)
	go func() {
		defer close(out)
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if line := lines.Text(); line != "" {
				out <- line
			}
		}
	}()
	return out
}

// await returns the next line with a prefix.
func await(t *testing.T, lines <-chan string, prefix string) string {
	t.Helper()
	timeout := time.After(testkit.Ceiling)
	for {
		select {
		case line, open := <-lines:
			if strings.HasPrefix(line, prefix) {
				return line
			}
			if !open {
				t.Fatalf("the events ended before %q", prefix)
			}
		case <-timeout:
			t.Fatalf("no %q", prefix)
		}
	}
}

// ends waits for the end of the lines.
func ends(t *testing.T, lines <-chan string) {
	t.Helper()
	timeout := time.After(testkit.Ceiling)
	for {
		select {
		case _, open := <-lines:
			if !open {
				return
			}
		case <-timeout:
			t.Fatal("the events do not end")
		}
	}
}

// TestLive: a page gets the changes, without keys, and starts again after a reload; it does
// not keep the program from ending.
func TestLive(t *testing.T) {
	t.Parallel()
	file := func(quota int) string {
		return fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, limits: %d/min sliding-log}, {name: idle, match: {path: /never}, limits: 1/s}]\n", servetest.Named(t, "up"), quota)
	}
	s := servetest.Start(t, file(2), servetest.Stopped)
	lines := events(t, s)
	for range 3 {
		s.Get(t, "/", "X-User", "otto")
	}
	testkit.Until(t, "the counts", func() bool {
		line := strings.TrimPrefix(await(t, lines, "data: "), "data: ")
		var e admin.Live
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.Contains(line, "otto") || !e.StoreUp || !e.Current || e.Version == "" {
			t.Fatalf("got %s", line)
		}
		return e.Rules["api"].Denied == 1 && e.Rules["api"].Allowed == 2 && e.Total.Denied == 1
	})
	s.Change(t, file(3), "active since")
	ends(t, lines)
	lines = events(t, s)
	await(t, lines, "retry:")
	s.End(t)
	ends(t, lines)
}

// TestOverviewDelayed: requests that were delayed, over a soft limit, or decided without the
// store are counted as such.
func TestOverviewDelayed(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: slow, match: {path: /slow}, by: header.X-User, limits: 20/s leaky-bucket burst 5}
  - {name: lax, match: {path: /lax}, limits: {soft: 1/h sliding-log, grace: 5/h sliding-log}}
`, servetest.Named(t, "up")), servetest.Stopped)
	for range 2 {
		s.Get(t, "/slow", "X-User", "ada")
		s.Get(t, "/lax")
	}
	o, _ := overviewOf(t, s, "")
	slow, lax, total := o.Rules[0], o.Rules[1], o.Requests.Total
	if slow.Allowed != 1 || slow.Delayed != 1 || lax.Allowed != 1 || lax.Warned != 1 || lax.Delayed != 0 || total.Delayed != 1 || total.Warned != 1 || total.Allowed != 2 {
		t.Errorf("got %+v, %+v, %+v", slow.Counts, lax.Counts, total)
	}
	away := servetest.Start(t, fmt.Sprintf(`
upstream: %q
store: {redis: {url: "redis://127.0.0.1:1"}}
rules:
  - {name: open, match: {path: /open}, limits: 5/h, candidates: {c: 1/h}} # two calls of the store
  - {name: closed, match: {path: /closed}, limits: 5/h, failure: closed}
`, servetest.Named(t, "up")))
	for path, want := range map[string]int{"/open": http.StatusOK, "/closed": http.StatusServiceUnavailable} {
		away.Want(t, want, path)
	}
	o, text := overviewOf(t, away, "")
	if open, closed := o.Rules[0], o.Rules[1]; open.FailedOpen != 1 || open.Degraded != 1 || closed.Failed != 1 || closed.Degraded != 1 || o.Requests.Total.Degraded != 2 || open.Failure != "open" || closed.Failure != "closed" {
		t.Errorf("got %+v, %+v, %+v", open.Counts, closed.Counts, o.Requests.Total)
	}
	if o.Store.Up || o.Store.Kind != "redis" || o.Store.Degraded != 2 || !strings.Contains(o.Store.Text, "store: down") {
		t.Errorf("store %+v in %s", o.Store, text)
	}
}
