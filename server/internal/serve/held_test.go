// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestMaxWait: max_wait delays requests that a bucket or a window would deny, and requests
// that it is too short for are denied. Delayed requests stay in the queue when the file
// changes, and leave it with their clients.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	const rules = `rules:
  - {name: brief, match: {query: {rule: brief}}, limits: 5/s burst 1, max_wait: 2s}
  - {name: window, match: {query: {rule: window}}, limits: 2/100ms fixed-window, max_wait: 2s}
  - {name: short, match: {query: {rule: short}}, limits: 1/h burst 1, max_wait: 2s}
  - {name: long, match: {query: {rule: long}}, limits: 20/h burst 1, max_wait: 1h}
`
	server := redistest.Start(t, redistest.Redis(t))
	for name, store := range map[string]string{"memory": "", "redis": "store: {redis: {url: " + server.URL() + "}}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servetest.Start(t, store+rules)
			var group sync.WaitGroup
			for range 8 { // waits up to 1.4 s
				for _, rule := range []string{"brief", "window"} {
					group.Go(func() {
						if got := s.Get(t, "/?userId=u&rule="+rule).Status; got != http.StatusOK {
							t.Errorf("%s: got %d, want 200 after a wait", rule, got)
						}
					})
				}
			}
			group.Wait()
			if first, next := s.Get(t, "/?userId=u&rule=short").Status, s.Get(t, "/?userId=u&rule=short").Status; first != http.StatusOK || next != http.StatusTooManyRequests {
				t.Errorf("one that would wait too long: got %d after %d, want 429 after 200", next, first)
			}

			s = servetest.Start(t, "max_delayed: 3\n"+store+strings.ReplaceAll(rules, "name: ", "name: again-"))
			s.Get(t, "/?userId=u&rule=long")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			full := make(chan struct{})
			for range 4 { // one finds no place
				group.Go(func() {
					if leaves(ctx, t, s, "/?userId=u&rule=long") == http.StatusServiceUnavailable {
						close(full)
					}
				})
			}
			testkit.Until(t, "one to find no place", func() bool {
				select {
				case <-full:
					return true
				default:
					return false
				}
			})
			s.ChangeTo(t, "max_delayed: 2\n"+store+strings.ReplaceAll(rules, "name: ", "name: again-"))
			if got := s.Get(t, "/?userId=u&rule=long").Status; got != http.StatusServiceUnavailable {
				t.Errorf("while all places are taken: got %d, want 503", got)
			}
			leave()
			group.Wait()
			testkit.Until(t, "places to be free", func() bool {
				var one int
				group.Go(func() { one = s.Get(t, "/?userId=u&rule=brief").Status })
				other := s.Get(t, "/?userId=u&rule=brief").Status
				group.Wait()
				return one == http.StatusOK && other == http.StatusOK
			})
		})
	}
}

// leaves asks for a path and returns the status, or 0 if ctx ended before.
func leaves(ctx context.Context, t *testing.T, r *servetest.Gateway, path string) int {
	t.Helper()
	req := servetest.Request(ctx, t, http.MethodGet, r.URL+path, nil)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return resp.StatusCode
}
