// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/serve/servetest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestPausedStore: a client that gets 503, or hangs up, while the store hangs for a moment
// has spent nothing, whatever a rule asks of the store.
func TestPausedStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, rule string }{
		{"a log", "limits: 3/h sliding-log"},
		{"a bucket", "limits: 3/h burst 3"},
		{"several limits", "limits: [3/h sliding-log, 3/day fixed-window]"},
		{"several levels", "levels: [{name: all, limits: 3/h sliding-log}, {name: each, by: ip, limits: 3/h sliding-counter}]"},
		{"a lease", "limits: 3/h sliding-log, lease: {units: 2, ttl: 1m}"},
		{"held", "limits: 3/h sliding-log, when: {response: [200], hold: true}"},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, clients leave %v", c.name, leaves), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, redistest.Redis(t))
				network := redistest.StartProxy(t, server.Addr)
				s := servetest.Start(t, fmt.Sprintf("store: {redis: {url: \"redis://%s\"}}\nrules: [{name: a, failure: closed, %s}]\n", network.Addr+redistest.Patient, c.rule))
				network.Set(redistest.Swallowing)
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var group sync.WaitGroup
				for range 3 {
					group.Go(func() { abandon(ctx, t, s) })
				}
				if leaves {
					// A call that was not sent has nothing to give back.
					testkit.Until(t, "the store to be asked", func() bool {
						return network.Held() > 0 && s.Metrics(t)[`sluice_store_calls_in_flight{store="redis"}`] > 0
					})
					leave()
				}
				group.Wait()
				network.Set(redistest.Faithful) // what was delayed goes on
				testkit.Until(t, "late answers", func() bool { return s.Metrics(t)[`sluice_store_calls_in_flight{store="redis"}`] == 0 })
				// Some are given back later than others. On a machine that is busy a refund may come
				// too late, and a lease may be lost by a refund behind it; both are counted.
				passed, got := 0, 0
				lost := func() int {
					m := s.Metrics(t)
					return int(m[`sluice_store_refunds_failed_total{store="redis"}`] + m[`sluice_lease_units_total{outcome="lost",store="redis"}`])
				}
				ask := func() {
					if got = s.Get(t, "/?userId=u").Status; got == http.StatusOK {
						passed++
					}
				}
				testkit.Until(t, "all 3 units to be there", func() bool {
					ask()
					return passed+lost() >= 3
				})
				testkit.Until(t, "a denial", func() bool {
					ask()
					return got == http.StatusTooManyRequests || passed > 3
				})
				if passed > 3 {
					t.Errorf("%d passed when the store was back, want 3", passed)
				}
			})
		}
	}
}

// abandon asks, while the store hangs, and hangs up when ctx ends.
func abandon(ctx context.Context, t *testing.T, r *servetest.Gateway) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.URL+"/?userId=u", nil)
	if err != nil {
		t.Error(err)
		return
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return // it has left
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	if resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("while the store hangs: got %d, want 503", resp.StatusCode)
	}
}
