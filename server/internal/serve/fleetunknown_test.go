// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestFleetUnknown: a change whose reply from the store is lost is listed as of unknown
// outcome, is active at the node, and can be repeated.
func TestFleetUnknown(t *testing.T) {
	t.Parallel()
	network := redistest.StartProxy(t, redistest.Start(t, redistest.Redis(t)).Addr)
	a := node(t, "redis://"+network.Addr+redistest.Patient)
	untilTold(t, a, `, "limits": ["50/h"]`)
	network.CutNextWith("100/h")
	got, _ := tell(t, a, http.MethodPut, `, "limits": ["100/h"]`)
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "may have made the change") {
		t.Fatalf("without an answer: %d %s", got.Status, got.Body)
	}
	allFull(t, 100, a)
	testkit.Until(t, "the change to be listed", func() bool {
		return strings.Contains(a.Ask(t, http.MethodGet, "/v1/audit?n=5", "").Body, `"unknown": true`)
	})
	testkit.Until(t, "a retry", func() bool {
		got, _ = tell(t, a, http.MethodPut, `, "limits": ["100/h"]`)
		return got.Status == http.StatusOK
	})
}

// TestFleetReload: overrides that arrive during a reload are all active.
func TestFleetReload(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	store := fmt.Sprintf("store: {redis: {url: %q}}\n", redis.URL())
	a, b := servetest.Start(t, store+fleetRules), servetest.Start(t, store+fleetRules)
	n := testkit.Steps(80, 300)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			a.Override(t, "api", "header.X-User", fmt.Sprint("u", i), fmt.Sprintf("%d/h", 1000+i))
			if i%3 == 0 {
				a.Ask(t, http.MethodDelete, "/v1/override", fmt.Sprintf(`{"rule": "api", "parts": {"header.X-User": "u%d"}, "reason": "x", "author": "eve"}`, i))
			}
		}
	}()
	for i, more := 0, true; more; i++ {
		b.ChangeTo(t, store+fmt.Sprintf("rules: [{name: api, by: header.X-User, limits: %d/h sliding-log}]\n", 10+i))
		select {
		case <-done:
			more = false
		default:
		}
	}
	for i := range n {
		testkit.Until(t, fmt.Sprintf("u%d to have its limit", i), func() bool {
			text := b.Ask(t, http.MethodGet, fmt.Sprintf("/v1/key?rule=api&header.X-User=u%d", i), "").Body
			return strings.Contains(text, fmt.Sprintf(`"full": %d`, 1000+i)) != (i%3 == 0)
		})
	}
}
