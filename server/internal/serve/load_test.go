// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const (
	loadQuota   = 1000
	loadClients = 32 // connections
)

// loads are limits that admit exactly 1000 of 1001 requests, with the clock under which they
// do and the reason.
var loads = []struct {
	limit string
	clock func() func() time.Time
	why   string
}{
	{"1000/min sliding-log", passing, "nothing leaves the window within a minute"},
	{"1000/min sliding-histogram", passing, "nothing leaves the window within a minute"},
	{"1000/min sliding-counter conservative", passing, "a sub-window that is in sight counts whole"},
	{"1000/min sliding-counter conservative sub-windows 6", passing, "a sub-window that is in sight counts whole"},
	{"1000/min fixed-window anchor first", passing, "the window opens with the first request"},
	{"1000/min token-bucket interval-refill", passing, "the refill comes a minute after the first request"},
	{"1000/min sliding-counter", ticking, "what came before an edge of the clock's minute is weighed down, and by this clock there is none"},
	{"1000/min sliding-counter sub-windows 6", ticking, "what came before is weighed down only from a minute after on, and by this clock less than that passes"},
	{"1000/min fixed-window", ticking, "an edge of the clock's minute would open another window, and by this clock there is none"},
	{"1000/min token-bucket", fixed, "a unit comes back every 60 ms, and by this clock no time passes"},
	{"1000/min leaky-bucket burst 1000 nodelay", fixed, "a unit leaks every 60 ms, and by this clock no time passes"},
}

func ticking() func() time.Time {
	return (&tickingClock{start: time.Date(2026, 1, 2, 3, 4, 10, 0, time.UTC), step: 10 * time.Microsecond}).now
}

// passing is a ticking clock that passes the end of a minute during the requests.
func passing() func() time.Time {
	return (&tickingClock{start: time.Date(2026, 1, 2, 3, 4, 59, 990_000_000, time.UTC), step: 10 * time.Microsecond}).now
}

func fixed() func() time.Time { return servetest.FixedClock }

// TestLoad: of 1001 requests over many connections exactly 1000 reach the upstream and one is
// denied, under every algorithm that promises it; make long repeats it.
func TestLoad(t *testing.T) {
	t.Parallel()
	for _, l := range loads {
		t.Run(l.limit, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			up := servetest.Backend(t, func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				w.WriteHeader(http.StatusNoContent)
			})
			r := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: gateway, by: query.userId, limits: %s}]\n", up, l.limit), func(o *serve.Options) { o.Now = l.clock() })
			t.Log("exact, as", l.why)
			transport := &http.Transport{MaxIdleConnsPerHost: loadClients}
			defer transport.CloseIdleConnections()
			runs := testkit.Steps(1, 20)
			for run := range runs {
				counts := loadOnce(t, &http.Client{Transport: transport}, fmt.Sprintf("%s/?userId=u%d", r.URL, run))
				if counts[http.StatusNoContent] != loadQuota || counts[http.StatusTooManyRequests] != 1 || len(counts) != 2 {
					t.Errorf("run %d: statuses %v, want %d passed and 1 denied", run+1, counts, loadQuota)
				}
			}
			if want := int64(runs) * loadQuota; seen.Load() != want {
				t.Errorf("the upstream saw %d requests, want %d", seen.Load(), want)
			}
			counted := map[string]float64{}
			for name, v := range r.Metrics(t) {
				if _, verdict, ok := strings.Cut(name, `verdict="`); ok && strings.HasPrefix(name, "sluice_decisions_total") {
					counted[strings.TrimRight(verdict, `"}`)] += v
				}
			}
			if counted["allowed"] != float64(runs*loadQuota) || counted["denied"] != float64(runs) {
				t.Errorf("metrics: %v; want %d allowed, %d denied", counted, runs*loadQuota, runs)
			}
		})
	}
}

// loadOnce sends 1001 requests from several clients, and counts the statuses.
func loadOnce(t *testing.T, client *http.Client, url string) map[int]int {
	t.Helper()
	var left atomic.Int64
	left.Store(loadQuota + 1)
	var mu sync.Mutex
	counts := make(map[int]int)
	var clients sync.WaitGroup
	for range loadClients {
		clients.Go(func() {
			for left.Add(-1) >= 0 {
				status := servetest.Fetch(t, client, url).Status
				mu.Lock()
				counts[status]++
				mu.Unlock()
			}
		})
	}
	clients.Wait()
	return counts
}

// tickingClock advances by step at each call.
type tickingClock struct {
	start time.Time
	step  time.Duration
	ticks atomic.Int64
}

func (c *tickingClock) now() time.Time {
	return c.start.Add(time.Duration(c.ticks.Add(1)) * c.step)
}
