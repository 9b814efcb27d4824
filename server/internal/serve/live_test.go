// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"weak"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestLiveChange: under load a limit is raised, lowered, made unreadable and raised again. The
// store's clock stands still, so the admitted numbers are exact: a raise admits the difference
// at once, a lower limit admits nothing, and a bad file changes nothing.
func TestLiveChange(t *testing.T) {
	t.Parallel()
	up := servetest.Named(t, "up")
	file := func(quota int) string {
		return fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
upstream: %q
rules: [{name: api, limits: %d/min sliding-log}]
`, up, quota)
	}
	s := servetest.Start(t, file(100), servetest.Stopped)
	var allowed, other atomic.Int64
	var denials [4]atomic.Int64 // of each client, since its last success
	stop := make(chan struct{})
	var load sync.WaitGroup
	for i := range denials {
		load.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				switch got := servetest.Fetch(t, http.DefaultClient, s.URL+"/x"); got.Status {
				case http.StatusOK:
					allowed.Add(1)
					denials[i].Store(0)
				case http.StatusTooManyRequests:
					denials[i].Add(1)
				default:
					other.Add(1)
				}
			}
		})
	}
	// settled waits until every client is denied under the active limit, and returns how many
	// requests were allowed in all.
	settled := func() int64 {
		for i := range denials {
			denials[i].Store(0)
		}
		for i := range denials {
			testkit.Until(t, "denials", func() bool { return denials[i].Load() > 5 })
		}
		return allowed.Load()
	}
	active := "active since"
	if got := settled(); got != 100 {
		t.Errorf("at 100: %d allowed", got)
	}
	first := s.Hash(t)
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
		before := s.Hash(t)
		s.Write(t, c.yaml)
		s.Change(t, c.yaml, c.ready)
		testkit.Until(t, "another version", func() bool { return c.ready != active || s.Hash(t) != before })
		if got := settled(); got != c.want {
			t.Errorf("%s: %d allowed in all, want %d", c.name, got, c.want)
		}
		after, m := s.Hash(t), s.Metrics(t)
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
		if got := m[fmt.Sprintf("sluice_config_info{file=%q,hash=%q}", s.File, after)]; got != 1 {
			t.Errorf("%s: no sluice_config_info of %s", c.name, after)
		}
	}
	if first == s.Hash(t) {
		t.Error("the version never changed")
	}
	close(stop)
	load.Wait()
	if n := other.Load(); n > 0 {
		t.Errorf("%d answers were neither 200 nor 429", n)
	}
	logs := s.Logs.String()
	if !strings.Contains(logs, "stays active") || !strings.Contains(logs, "line=5 column=21 problem=") {
		t.Errorf("the fault was not logged: %s", logs)
	}
	s.ExpectLog(t, "stays active")
}

// TestFileIsWatched: a changed file takes effect without a signal.
func TestFileIsWatched(t *testing.T) {
	t.Parallel()
	file := func(quota int) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: api, limits: %d/min sliding-log}]\n", quota)
	}
	s := servetest.Start(t, file(1), servetest.Stopped)
	s.WantAll(t, []int{200, 429}, "/?userId=u")
	s.Write(t, file(2))
	testkit.Until(t, "the change", func() bool { return s.Get(t, "/?userId=u").Status == http.StatusOK })
	s.Want(t, 429, "/?userId=u")
}

// TestLiveRoutes: upstreams and networks change with the file, and states stay.
func TestLiveRoutes(t *testing.T) {
	t.Parallel()
	a, b := servetest.Named(t, "a"), servetest.Named(t, "b")
	file := func(up, deny string) string {
		return fmt.Sprintf("listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nupstream: %q\n%srules: [{name: api, limits: 3/min sliding-log}]\n", up, deny)
	}
	s := servetest.Start(t, file(a, ""), servetest.Stopped)
	if got := s.Get(t, "/"); got.Body != "a / 0" {
		t.Fatalf("got %q", got.Body)
	}
	s.ChangeTo(t, file(b, ""))
	got := s.Get(t, "/")
	if got.Body != "b / 0" {
		t.Errorf("got %q, want the other upstream", got.Body)
	}
	wantField(t, got, "Ratelimit", `"api";r=1;t=60`)
	s.ChangeTo(t, file(b, "deny: 127.0.0.0/8\n"))
	s.Want(t, 403, "/")
}

// TestOverridesAndReloadsTogether: overrides and reloads do not deadlock, and none is lost.
func TestOverridesAndReloadsTogether(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, "rules: [{name: api, by: query.userId, limits: 5/min sliding-log}]\n", servetest.Stopped)
	const each = 20
	var changes sync.WaitGroup
	changes.Go(func() {
		for range each {
			s.Again <- syscall.SIGHUP
		}
	})
	for i := range each {
		s.Override(t, "api", "query.userId", fmt.Sprint("u", i), "1/min sliding-log")
	}
	changes.Wait()
	for i := range each {
		path := fmt.Sprintf("/?userId=u%d", i)
		s.WantAll(t, []int{200, 429}, path)
	}
}

// TestOldRulesAreCollected: after a reload the previous rules are not in memory any more, nor
// those of the start.
func TestOldRulesAreCollected(t *testing.T) {
	t.Parallel()
	const file = "upstream: %q\nrules: [{name: a, by: ip, limits: %d/h}]\n"
	up := servetest.Named(t, "up")
	var first weak.Pointer[policy.Policy]
	s := servetest.Start(t, fmt.Sprintf(file, up, 1), func(o *serve.Options) { first = weak.Make(o.Config.Policy) })
	s.Get(t, "/")
	for n := range 2 {
		s.ChangeTo(t, fmt.Sprintf(file, up, n+2))
		s.Get(t, "/")
	}
	testkit.Until(t, "the first rules to be collected", func() bool {
		goruntime.GC()
		return first.Value() == nil
	})
}
