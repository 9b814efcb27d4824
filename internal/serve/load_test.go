// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

const (
	loadQuota   = 1000
	loadClients = 32 // connections
	loadRuns    = 20
	throughRuns = 5
)

// loads are limits that promise exactly 1000 of 1001 requests, with the clock
// under which they do and the reason. On the system's clock a run must take
// less than a minute; it takes about a second.
var loads = []struct {
	limit string
	clock func() func() time.Time // nil: the system's
	why   string
}{
	{"1000/min sliding-log", nil, "nothing leaves the window within a minute"},
	{"1000/min sliding-histogram", nil, "nothing leaves the window within a minute"},
	{"1000/min sliding-counter conservative", nil, "a sub-window that is in sight counts whole"},
	{"1000/min sliding-counter conservative sub-windows 6", nil, "a sub-window that is in sight counts whole"},
	{"1000/min fixed-window anchor first", nil, "the window opens with the first request"},
	{"1000/min token-bucket interval-refill", nil, "the refill comes a minute after the first request"},
	{"1000/min sliding-counter", ticking, "what came before an edge of the clock's minute is weighed down, and by this clock there is none"},
	{"1000/min sliding-counter sub-windows 6", ticking, "what came before is weighed down only from a minute after on, and by this clock less than that passes"},
	{"1000/min fixed-window", ticking, "an edge of the clock's minute would open another window, and by this clock there is none"},
	{"1000/min token-bucket", fixed, "a unit comes back every 60 ms, and by this clock no time passes"},
	{"1000/min leaky-bucket burst 1000 nodelay", fixed, "a unit leaks every 60 ms, and by this clock no time passes"},
}

func ticking() func() time.Time { return (&tickingClock{step: 10 * time.Microsecond}).now }
func fixed() func() time.Time   { return fixedClock }

// TestLoad: of 1001 requests over many connections exactly 1000 pass and one is
// denied, 20 times in a row (5 under the race detector), under every algorithm that
// promises it.
func TestLoad(t *testing.T) {
	for _, l := range loads {
		t.Run(l.limit, func(t *testing.T) {
			t.Parallel()
			r := startLoad(t, l.clock, "", l.limit)
			t.Log("exact, as", l.why)
			loadTimes(t, r, runs(testkit.FewerRace(loadRuns)), nil)
		})
	}
}

// TestLoadThroughToUpstream: the same in front of another server, which sees
// exactly what passed, 5 times in a row (once under the race detector).
func TestLoadThroughToUpstream(t *testing.T) {
	for _, l := range loads {
		t.Run(l.limit, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
				seen.Add(1)
				w.WriteHeader(http.StatusNoContent)
			})
			r := startLoad(t, l.clock, fmt.Sprintf("upstream: %q\n", up), l.limit)
			loadTimes(t, r, runs(testkit.FewerRace(throughRuns)), &seen)
		})
	}
}

// runs returns n, or 1 where little time is wanted.
func runs(n int) int {
	if testing.Short() {
		return 1
	}
	return n
}

func startLoad(t *testing.T, clock func() func() time.Time, upstream, limit string) *running {
	t.Helper()
	return start(t, upstream+"rules: [{name: gateway, by: query.userId, limits: "+limit+"}]\n", func(o *Options) {
		if clock != nil {
			o.Now = clock()
		}
	})
}

// loadTimes sends 1001 requests for each of as many users: the first time with
// the client of net/http, then with one of less weight.
func loadTimes(t *testing.T, r *running, runs int, seen *atomic.Int64) {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: loadClients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: answerLimit}
	lean := dial(t, strings.TrimPrefix(r.url, "http://"), loadClients)
	for run := range runs {
		path := fmt.Sprintf("/?userId=u%d", run)
		counts := loadOnce(t, func(i int) (int, error) {
			if run == 0 {
				return statusOf(t.Context(), client, r.url+path)
			}
			return lean[i].get(path)
		})
		passed := counts[http.StatusOK] + counts[http.StatusNoContent]
		if passed != loadQuota || counts[http.StatusTooManyRequests] != 1 || len(counts) != 2 {
			t.Errorf("run %d: statuses %v, want %d passed and 1 denied", run+1, counts, loadQuota)
		}
	}
	if want := int64(runs) * loadQuota; seen != nil && seen.Load() != want {
		t.Errorf("the upstream saw %d requests, want %d", seen.Load(), want)
	}
	m := r.metrics(t)
	var allowed, denied float64
	for name, v := range m {
		if strings.HasPrefix(name, "sluice_decisions_total") && strings.Contains(name, `"allowed"`) {
			allowed += v
		} else if strings.HasPrefix(name, "sluice_decisions_total") {
			denied += v
		}
	}
	if allowed != float64(runs*loadQuota) || denied != float64(runs) {
		t.Errorf("metrics: %v allowed, %v denied; want %d, %d", allowed, denied, runs*loadQuota, runs)
	}
}

// loadOnce has every client ask until 1001 requests have been sent, and counts
// the statuses.
func loadOnce(t *testing.T, ask func(client int) (status int, err error)) map[int]int {
	t.Helper()
	var left atomic.Int64
	left.Store(loadQuota + 1)
	var mu sync.Mutex
	counts := make(map[int]int)
	var clients sync.WaitGroup
	for i := range loadClients {
		clients.Go(func() {
			mine := make(map[int]int)
			for left.Add(-1) >= 0 {
				status, err := ask(i)
				if err != nil {
					t.Error(err)
					return
				}
				mine[status]++
			}
			mu.Lock()
			defer mu.Unlock()
			for status, n := range mine {
				counts[status] += n
			}
		})
	}
	clients.Wait()
	return counts
}

// statusOf reads an answer to its end.
func statusOf(ctx context.Context, client *http.Client, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, errors.Join(err, resp.Body.Close())
}
