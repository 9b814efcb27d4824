// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/server/reload"
)

// TestLiveChange: while clients press on, a limit is raised, lowered, made
// unreadable and raised again. The store's clock stands still, so what each
// limit lets through is exact: the raised one lets the denied in at once for
// the difference, the lowered one nobody, and a bad file changes nothing.
func TestLiveChange(t *testing.T) {
	up := named(t, "up")
	file := func(quota int) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
upstream: %q
rules: [{name: api, limits: %d/min sliding-log}]
`, up, quota)
	}
	s := start(t, file(100), stopped)
	var allowed, denied, other atomic.Int64
	var answers [8]atomic.Int64 // of each client
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range answers {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch got := fetch(t, http.DefaultClient, s.url+"/x"); got.status {
				case http.StatusOK:
					allowed.Add(1)
				case http.StatusTooManyRequests:
					denied.Add(1)
				default:
					other.Add(1)
				}
				answers[i].Add(1)
			}
		})
	}
	// settled waits until every client has had many answers under what is in
	// force, and returns how many were allowed in all.
	settled := func() int64 {
		for i := range answers {
			from := answers[i].Load()
			until(t, "answers", func() bool { return answers[i].Load() > from+12 })
		}
		return allowed.Load()
	}
	active := "active since"
	if got := settled(); got != 100 {
		t.Errorf("at 100: %d allowed", got)
	}
	first := s.hash(t)
	for _, c := range []struct {
		name  string
		yaml  string
		ready string
		want  int64
	}{
		{"raised", file(150), active, 150},
		{"lowered", file(40), active, 150},
		{"unreadable", strings.Replace(file(900), "limits", "limit", 1), `sluice.yaml:5:`, 150},
		{"raised after that", file(170), active, 170},
	} {
		before := s.hash(t)
		s.write(t, c.yaml)
		s.change(t, c.yaml, c.ready)
		for c.ready == active && s.hash(t) == before {
			if t.Failed() {
				break
			}
		}
		if got := settled(); got != c.want {
			t.Errorf("%s: %d allowed in all, want %d", c.name, got, c.want)
		}
		after, m := s.hash(t), s.metrics(t)
		kept := c.ready != active
		if (after == before) != kept {
			t.Errorf("%s: version %s, then %s", c.name, before, after)
		}
		current := 1.0
		if kept {
			current = 0
		}
		if got := m["sluice_config_current"]; got != current {
			t.Errorf("%s: sluice_config_current = %v, want %v", c.name, got, current)
		}
		if got := m[fmt.Sprintf("sluice_config_info{file=%q,hash=%q}", s.file, after)]; got != 1 {
			t.Errorf("%s: no sluice_config_info of %s", c.name, after)
		}
	}
	if first == s.hash(t) {
		t.Error("the version never changed")
	}
	close(stop)
	load.Wait()
	if n := other.Load(); n > 0 {
		t.Errorf("%d answers were neither 200 nor 429", n)
	}
	logs := s.logs.String()
	if !strings.Contains(logs, "stays active") || !strings.Contains(logs, "line=5 column=21 problem=") {
		t.Errorf("the fault was not logged: %s", logs)
	}
	s.expectLog(t, "stays active")
}

// expectLog takes lines that are expected out of the log. They come to it a little
// later than to other pages.
func (r *running) expectLog(t *testing.T, text string) {
	t.Helper()
	until(t, "the log to say "+text, func() bool { return strings.Contains(r.logs.String(), text) })
	r.logs.mu.Lock()
	defer r.logs.mu.Unlock()
	var kept strings.Builder
	for line := range strings.Lines(r.logs.buf.String()) {
		if !strings.Contains(line, text) {
			kept.WriteString(line)
		}
	}
	r.logs.buf.Reset()
	r.logs.buf.WriteString(kept.String())
}

// TestManyFaultsAreNotLogged: a file with a thousand faults does not flood the
// log each time it is read.
func TestManyFaultsAreNotLogged(t *testing.T) {
	for _, c := range []struct{ faults, lines int }{{1, 1}, {21, 21}, {22, 21}, {1001, 21}} {
		var logs bytes.Buffer
		s := server{Options: Options{Log: slog.New(slog.NewTextHandler(&logs, nil))}}
		s.changed(reload.Version{}, errors.New(strings.Repeat("a fault\n", c.faults)))
		if got, want := strings.Count(logs.String(), "\n"), c.lines; got != want {
			t.Errorf("%d faults: %d lines, want %d", c.faults, got, want)
		}
		if got, want := strings.Contains(logs.String(), fmt.Sprintf("faults=%d", c.faults-20)), c.faults > 21; got != want {
			t.Errorf("%d faults: said how many more is %v, want %v", c.faults, got, want)
		}
	}
}

// TestFileIsWatched: a file that changes takes effect without a signal.
func TestFileIsWatched(t *testing.T) {
	file := func(quota int) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: api, limits: %d/min sliding-log}]\n", quota)
	}
	s := start(t, file(1), stopped)
	if a, b := s.get(t, "/?userId=u"), s.get(t, "/?userId=u"); a.status != 200 || b.status != 429 {
		t.Fatalf("got %d, %d", a.status, b.status)
	}
	s.write(t, file(2))
	for s.get(t, "/?userId=u").status != http.StatusOK && !t.Failed() {
	}
	if got := s.get(t, "/?userId=u"); got.status != 429 {
		t.Errorf("after the change: got %d, want 429", got.status)
	}
}

// TestLiveRoutes: upstreams and networks change with the file, while the states
// stay.
func TestLiveRoutes(t *testing.T) {
	a, b := named(t, "a"), named(t, "b")
	file := func(up, deny string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: %q\n%srules: [{name: api, limits: 3/min sliding-log}]\n", up, deny)
	}
	s := start(t, file(a, ""), stopped)
	if got := s.get(t, "/"); got.body != "a / 0" {
		t.Fatalf("got %q", got.body)
	}
	wait := func(yaml string) {
		before := s.hash(t)
		s.change(t, yaml, "active since")
		for s.hash(t) == before && !t.Failed() {
		}
	}
	wait(file(b, ""))
	got := s.get(t, "/")
	if got.body != "b / 0" {
		t.Errorf("got %q, want the other upstream", got.body)
	}
	wantField(t, got, "Ratelimit", `"api";r=1;t=60`)
	wait(file(b, "deny: 127.0.0.0/8\n"))
	if got := s.get(t, "/"); got.status != 403 {
		t.Errorf("got %d, want 403", got.status)
	}
}

// TestOverridesAndReloadsTogether: neither waits for the other for good, and
// none is lost.
func TestOverridesAndReloadsTogether(t *testing.T) {
	s := start(t, "rules: [{name: api, by: query.userId, limits: 5/min sliding-log}]\n", stopped)
	const each = 20
	var changes sync.WaitGroup
	changes.Go(func() {
		for range each {
			s.again <- syscall.SIGHUP
		}
	})
	for i := range each {
		s.override(t, "api", "query.userId", fmt.Sprint("u", i), "1/min sliding-log")
	}
	changes.Wait()
	for i := range each {
		path := fmt.Sprintf("/?userId=u%d", i)
		if a, b := s.get(t, path), s.get(t, path); a.status != 200 || b.status != 429 {
			t.Errorf("u%d: got %d, %d, want 200, 429", i, a.status, b.status)
		}
	}
}
