// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestHoldsOfAKilledProcess: three processes share a budget for which a request is charged an
// estimate. One is killed while requests run: their estimates come back, and nothing else.
func TestHoldsOfAKilledProcess(t *testing.T) {
	t.Parallel()
	var running atomic.Int64
	release := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tokens := "0"
		if r.URL.Path == "/slow" {
			running.Add(1)
			select {
			case <-release:
			case <-r.Context().Done():
			}
			tokens = "5"
		}
		w.Header().Set("X-Tokens", tokens)
	}))
	defer model.Close()
	server := redistest.Start(t, redistest.Redis(t))
	file := testkit.TempFile(t, "sluice.yaml", fmt.Sprintf(`
listen: 127.0.0.1:0
admin: off
upstream: %q
store: {redis: {url: %q}}
rules:
  - name: tokens
    by: header.X-User
    cost: {response_header: X-Tokens, estimate: 20, most: 1000}
    hold_for: 1s
    limits: 100/day sliding-log
    failure: closed
`, model.URL, server.URL()))
	var nodes []*program
	for range 3 {
		nodes = append(nodes, startProgramWith(t, "--config", file))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var group sync.WaitGroup
	for i := range 4 { // two by the first, one by each other
		group.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, nodes[max(i-1, 0)].url+"/slow", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("X-User", "ada")
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_ = resp.Body.Close()
			}
		})
	}
	testkit.Until(t, "all requests to run", func() bool { return running.Load() == 4 })
	nodes[0].signal(t, syscall.SIGKILL)
	_ = nodes[0].Wait()
	close(release)
	group.Wait()
	testkit.Until(t, "the estimates of the killed process to be back", func() bool {
		a := servetest.Fetch(t, http.DefaultClient, nodes[1].url+"/", "X-User", "ada") // costs 20 until it ends, and then 0
		return a.Status == http.StatusOK && strings.Contains(a.Header.Get("RateLimit"), ";r=70;")
	})
	if a := servetest.Fetch(t, http.DefaultClient, nodes[2].url+"/", "X-User", "ada"); !strings.Contains(a.Header.Get("RateLimit"), ";r=70;") {
		t.Errorf("got %d %v, want that the others' requests have cost 10", a.Status, a.Header)
	}
}
