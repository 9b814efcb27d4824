// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
)

// admission is a request that was let through: at some instant between both.
type admission struct{ sent, heard time.Duration }

// flood is clients that ask the nodes of a fleet in turn, at a given rate.
type flood struct {
	urls     []atomic.Pointer[string]
	client   *http.Client
	began    time.Time
	asked    atomic.Int64
	answered atomic.Int64

	mu     sync.Mutex
	passed []admission
	away   int      // answers that the store took too long, which let nothing through
	odd    []string // answers that should not be
}

// run sends the requests that tokens names, from one client.
func (f *flood) run(ctx context.Context, tokens <-chan int) {
	for i := range tokens {
		sent := time.Since(f.began)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, *f.urls[i%len(f.urls)].Load()+"/?userId=u", nil)
		if err != nil {
			f.note(err.Error())
			return
		}
		f.asked.Add(1)
		resp, err := f.client.Do(req)
		if err != nil {
			continue // a node that is gone; whether it let the request through nobody knows
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := cmp.Or(err, resp.Body.Close()); err != nil {
			continue
		}
		f.answered.Add(1)
		switch resp.StatusCode {
		case http.StatusOK:
			f.mu.Lock()
			f.passed = append(f.passed, admission{sent, time.Since(f.began)})
			f.mu.Unlock()
		case http.StatusTooManyRequests:
		case http.StatusServiceUnavailable:
			f.mu.Lock()
			f.away++
			f.mu.Unlock()
		default:
			f.note(resp.Status)
		}
	}
}

func (f *flood) note(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odd = append(f.odd, text)
}

// most returns the most admissions that lie within one window for certain.
func most(all []admission, window time.Duration) (n int) {
	slices.SortFunc(all, func(a, b admission) int { return cmp.Compare(a.sent, b.sent) })
	for i := range all {
		within := 0
		for _, a := range all[i:] {
			if a.heard < all[i].sent+window {
				within++
			} else if a.sent > all[i].sent+window {
				break
			}
		}
		n = max(n, within)
	}
	return n
}

var scriptCalls = regexp.MustCompile(`cmdstat_(?:evalsha|eval|fcall):calls=(\d+)`)

// scripts returns how many scripts the server has run.
func scripts(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	text, err := client.Do(t.Context(), client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range scriptCalls.FindAllStringSubmatch(text, -1) {
		calls, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		n += calls
	}
	return n
}

// Processes lease one limit from one server under twice the load that it lets
// through. One is killed and started again, one ends as it should. The limit is
// kept in every window, and the server is asked less often than is decided.
func TestLeaseOfProcesses(t *testing.T) {
	const (
		nodes, clients = 3, 12
		quota, window  = 500, time.Second
		rate           = 2 * quota // requests a second
		requests       = 6 * rate
	)
	server := redistest.Start(t, redistest.Redis(t))
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	yaml := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: off
store: {redis: {url: %q}}
rules:
  - name: hot
    limits: %d/s sliding-log
    lease: {ttl: 100ms, units: 50}
    failure: closed
`, server.URL(), quota)
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &flood{
		urls: make([]atomic.Pointer[string], nodes), began: time.Now(),
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: clients}},
	}
	defer f.client.CloseIdleConnections()
	var fleet [nodes]*program
	startNode := func(i int) {
		fleet[i] = startProgramWith(t, "--config", file)
		f.urls[i].Store(&fleet[i].url)
	}
	for i := range fleet {
		startNode(i)
	}
	tokens := make(chan int, clients)
	var group sync.WaitGroup
	for range clients {
		group.Go(func() { f.run(t.Context(), tokens) })
	}
	tick := time.NewTicker(time.Second / rate)
	defer tick.Stop()
	for i := range requests {
		<-tick.C
		tokens <- i
		switch i {
		case requests / 3:
			killed := fleet[0]
			killed.signal(t, syscall.SIGKILL)
			group.Go(func() {
				if err := killed.Wait(); err == nil {
					t.Error("a process that was killed ended well")
				}
			})
		case requests / 2:
			startNode(0)
		case 2 * requests / 3:
			f.urls[1].Store(f.urls[2].Load())
			ended := fleet[1]
			ended.signal(t, syscall.SIGTERM)
			group.Go(func() {
				if err := ended.Wait(); err != nil {
					t.Errorf("a process that was instructed to end: %v; logged %s", err, ended.logs)
				}
			})
		}
	}
	close(tokens)
	group.Wait()
	if len(f.odd) > 0 {
		t.Errorf("%d answers such as %s", len(f.odd), f.odd[0])
	}
	calls, answered := scripts(t, server.Client(t)), int(f.answered.Load())
	got := most(f.passed, window)
	t.Logf("asked %d, answered %d, %d without the store, let through %d, at most %d in %v; %d store calls, %.3f for each answer",
		f.asked.Load(), answered, f.away, len(f.passed), got, window, calls, float64(calls)/float64(answered))
	if got > quota {
		t.Errorf("%d let through within %v, limit %d", got, window, quota)
	}
	if len(f.passed) < quota {
		t.Errorf("only %d let through, and the limit is %d in each %v", len(f.passed), quota, window)
	}
	if calls == 0 || 2*calls > answered {
		t.Errorf("%d store calls for %d answers, want at most half as many", calls, answered)
	}
}

// A load is counted as it should be: only what lies within a window for certain.
func TestMost(t *testing.T) {
	all := []admission{{30, 31}, {0, 5}, {1, 9}, {2, 10}, {2, 11}, {40, 60}}
	if got, want := most(all, 10), 2; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
	if got, want := most(all, 100), 6; got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}
