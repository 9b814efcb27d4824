// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// algorithms are limits per day of every algorithm.
var algorithms = []string{
	"", "leaky-bucket nodelay burst %d", "interval-refill", "fixed-window", "sliding-log",
	"sliding-log count-denied", "sliding-counter", "sliding-counter conservative", "sliding-histogram",
	"count-denied", "interval-refill count-denied", "sliding-counter count-denied", "sliding-histogram count-denied",
}

// TestChangedLimitGivesNothingAnew: a limit that is lowered and raised again by reloads, three
// times, admits no more than it does at once.
func TestChangedLimitGivesNothingAnew(t *testing.T) {
	t.Parallel()
	quota := testkit.Steps(100, 1000)
	up := servetest.Named(t, "up")
	for _, algorithm := range algorithms {
		t.Run("a day "+algorithm, func(t *testing.T) {
			t.Parallel()
			file := func(quota int) string {
				words := algorithm
				if words == algorithms[1] {
					words = fmt.Sprintf(algorithm, quota)
				}
				return fmt.Sprintf("upstream: %q\nrules: [{name: api, by: header.X-User, limits: \"api: %d/day %s\"}]\n", up, quota, words)
			}
			s := servetest.Start(t, file(quota), servetest.Stopped)
			passed := spendAs(t, s.URL, "u", quota+50)
			for range 3 {
				for _, q := range []int{10, quota} {
					s.ChangeTo(t, file(q))
					passed += spendAs(t, s.URL, "u", 40)
				}
			}
			if passed != quota {
				t.Errorf("%d passed in all, want %d", passed, quota)
			}
		})
	}
}

// spendAs sends n requests of a user and returns how many passed.
func spendAs(t *testing.T, url, user string, n int) int {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	passed := 0
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < n; i += 4 {
				a := servetest.Fetch(t, http.DefaultClient, url+"/x", "X-User", user)
				mu.Lock()
				if a.Status == http.StatusOK {
					passed++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return passed
}

// TestNodesOfTwoVersions: during a rollout two nodes on one Redis have different limits. A key
// that asks them in turn gets at least the lower limit and at most the higher one, at any
// speed.
func TestNodesOfTwoVersions(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	up := servetest.Named(t, "up")
	node := func(quota int) *servetest.Gateway {
		return servetest.Start(t, fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\nrules: [{name: api, by: header.X-User, limits: \"api: %d/s burst 1\"}]\n",
			up, server.URL(), quota))
	}
	nodes := []*servetest.Gateway{node(10), node(12)}
	const lower, higher = time.Second / 10, time.Second / 12
	var sent, there time.Time // of the last request that passed: it was decided in between
	for i, passed, denied := 0, 0, 0; passed < 20 || denied < 20; i++ {
		asked := time.Now()
		status := servetest.Fetch(t, http.DefaultClient, nodes[i%2].URL+"/x", "X-User", "u").Status
		reported := time.Now()
		switch status {
		case http.StatusOK:
			if passed > 0 && reported.Sub(sent) < higher {
				t.Errorf("request %d: passed, and was decided within %v of the one before", i, reported.Sub(sent))
			}
			sent, there = asked, reported
			passed++
		case http.StatusTooManyRequests:
			if passed == 0 || asked.Sub(there) >= lower {
				t.Errorf("request %d: denied, though %v ago at least the last has passed", i, asked.Sub(there))
			}
			denied++
		default:
			t.Fatalf("request %d: answered %d", i, status)
		}
	}
}

// TestFloodFreesNoLockedKey: a client that sends ever new keys frees no denied key, and does
// not affect a limit without a key.
func TestFloodFreesNoLockedKey(t *testing.T) {
	t.Parallel()
	maxKeys := testkit.Steps(200, 2_000)
	flood := 10 * maxKeys
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
store: {memory: {max_keys: %d}}
rules:
  - {name: log-in, by: header.X-User, limits: 5/15min sliding-log}
  - {name: all, match: {header: {X-All: "1"}}, limits: 20/day}
`, servetest.Named(t, "up"), maxKeys), servetest.Stopped)
	locked := func(i int) string { return fmt.Sprint("locked ", i) }
	for i := range 10 {
		if n := spendAs(t, s.URL, locked(i), 8); n != 5 {
			t.Fatalf("%d of 8 passed, want 5", n)
		}
	}
	everybody := 0 // each request has another user
	all := func() servetest.Answer {
		everybody++
		return servetest.Fetch(t, http.DefaultClient, s.URL+"/x", "X-User", fmt.Sprint("user ", everybody), "X-All", "1")
	}
	if n := spendAll(all, 5); n != 5 {
		t.Fatalf("%d of 5 passed, want all", n)
	}
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := worker; i < flood; i += 4 {
				servetest.Fetch(t, http.DefaultClient, s.URL+"/x", "X-User", fmt.Sprint("new ", i))
			}
		})
	}
	wg.Wait()
	for i := range 10 {
		if n := spendAs(t, s.URL, locked(i), 4); n != 0 {
			t.Errorf("%s is free again: %d pass", locked(i), n)
		}
	}
	if n := spendAll(all, 30); n != 15 {
		t.Errorf("under a limit without a key, of which 15 were left, %d passed", n)
	}
	s.ExpectLog(t, "max_keys")
}

func spendAll(ask func() servetest.Answer, n int) (passed int) {
	for range n {
		if ask().Status == http.StatusOK {
			passed++
		}
	}
	return passed
}

// TestChangedLimitThroughRemote: TestChangedLimitGivesNothingAnew through the wrapper of a
// shared store.
func TestChangedLimitThroughRemote(t *testing.T) {
	t.Parallel()
	store, err := remote.Wrap(memstore.New(memstore.Options{}), remote.Options{
		Lease: func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{}, p.Scope() == "leased" },
	})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, store)
	for _, scope := range []string{"plain", "leased"} {
		for _, algorithm := range []string{"", " sliding-log", " fixed-window", " sliding-counter conservative", " sliding-histogram"} {
			var all []*sluice.Limiter
			for _, quota := range []int{1000, 10} {
				l, err := sluice.New(store, scope, sluice.MustParseLimit(fmt.Sprintf("n: %d/day%s", quota, algorithm)))
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, l)
			}
			passed := 0
			for turn := range 20 {
				for range 200 {
					d, err := all[turn%2].Take(t.Context(), "k"+algorithm, 1)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						passed++
					}
				}
			}
			if passed > 1000 || passed < 900 {
				t.Errorf("%s%s: %d passed, want 1000 or, of a leased limit, little less", scope, algorithm, passed)
			}
		}
	}
}
