// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestPausedStore: a client that gets 503, or hangs up, while the store hangs for a moment has
// spent nothing, under any kind of rule.
func TestPausedStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, rule string }{
		{"a log", "limits: 3/h sliding-log"},
		{"a bucket", "limits: 3/h burst 3"},
		{"several limits", "limits: [3/h sliding-log, 3/day fixed-window]"},
		{"several levels", "levels: [{name: all, limits: 3/h sliding-log}, {name: each, by: ip, limits: 3/h sliding-counter}]"},
		{"a lease", "limits: 3/h sliding-log, lease: {units: 2, ttl: 1m}"},
		{"held", "limits: 3/h sliding-log, when: {response: [200], charge: first}"},
	} {
		for _, leaves := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, clients leave %v", c.name, leaves), func(t *testing.T) {
				short := false
				for tries := 0; !short; tries++ {
					if tries == 50 {
						t.Fatal("the machine is too slow for a short pause")
					}
					// Each try ends its server and its gateway, which would slow the next one down.
					if !t.Run("", func(t *testing.T) { short = paused(t, c.rule, leaves) }) {
						return
					}
				}
			})
		}
	}
}

// paused makes three clients wait for a store that hangs, and then spends the quota. It
// reports false if the store was silent long enough for its connection to be closed: late
// replies are lost then.
func paused(t *testing.T, rule string, leaves bool) bool {
	t.Helper()
	const mostPause = 600 * time.Millisecond // a connection may be silent for a second
	server := redistest.Start(t, redistest.Redis(t))
	network := redistest.StartProxy(t, server.Addr)
	s := servetest.Start(t, fmt.Sprintf("store: {redis: {url: \"redis://%s?timeout=100ms\"}}\nrules: [{name: a, failure: closed, %s}]\n", network.Addr, rule), unpolled)
	began := time.Now()
	network.Set(redistest.Swallowing)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() { abandon(ctx, t, s) })
	}
	if leaves {
		// A call that was not sent needs no refund.
		testkit.Until(t, "the store to be asked", func() bool {
			return network.Held() > 0 && s.Metrics(t)[`sluice_store_calls_in_flight{store="redis"}`] > 0 || time.Since(began) > mostPause
		})
		leave()
	}
	group.Wait()
	// Until the gateway has noticed that its clients left, a reply lets their requests pass.
	testkit.Until(t, "the requests to be over", func() bool {
		running := 0.0
		for name, n := range s.Metrics(t) {
			if strings.HasPrefix(name, "sluice_http_requests_in_flight{") {
				running += n
			}
		}
		return running == 0 || time.Since(began) > mostPause
	})
	network.Set(redistest.Faithful) // delayed bytes are delivered
	if time.Since(began) > mostPause {
		return false
	}
	testkit.Until(t, "late answers to be given back", func() bool {
		m := s.Metrics(t)
		return m[`sluice_store_calls_in_flight{store="redis"}`] == 0 && m[`sluice_store_refunds_total{store="redis"}`] > 0
	})
	query := "rule=a"
	if strings.Contains(rule, "by: ip") {
		query += "&ip=127.0.0.1"
	}
	var got servetest.Answer
	defer func() {
		if t.Failed() {
			t.Logf("the key: %s", got.Body)
		}
	}()
	testkit.Until(t, "all of every limit to be left", func() bool { // each refund is a call of its own, and a look may fail on a busy machine
		got = servetest.Fetch(t, http.DefaultClient, s.Admin+"/v1/key?"+query)
		var states admin.KeyStates
		if got.Status != http.StatusOK || json.Unmarshal([]byte(got.Body), &states) != nil {
			return false
		}
		limits := 0
		for _, key := range states.Keys {
			for _, l := range key.Limits {
				if l.Full != 3 || l.Remaining != 3 {
					return false
				}
				limits++
			}
		}
		return limits > 0
	})
	if n := s.Metrics(t)[`sluice_store_refunds_failed_total{store="redis"}`]; n != 0 {
		t.Errorf("%v decisions were not given back", n)
	}
	return true
}

// unpolled keeps a node from polling the fleet's records: after an outage it would return
// leased units, as a reset may have been missed.
func unpolled(o *serve.Options) { o.Intervals.Fleet = time.Hour }

// abandon sends a request while the store hangs, and hangs up when ctx ends.
func abandon(ctx context.Context, t *testing.T, r *servetest.Gateway) {
	t.Helper()
	if got := leaves(ctx, t, r, "/?userId=u"); got != 0 && got != http.StatusServiceUnavailable {
		t.Errorf("while the store hangs: got %d, want 503", got)
	}
}
