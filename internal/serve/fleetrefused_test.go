// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

// TestFleetLongReason: what nodes cannot share is refused before anything is written, and
// the node goes on to learn what others change.
func TestFleetLongReason(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	all := nodes(t, redis.URL(), 2)
	allFull(t, 3, all...)
	long := map[string]string{
		"reason": fmt.Sprintf(`"author": "ops", "reason": %q`, strings.Repeat("x", 20<<10)),
		"author": fmt.Sprintf(`"author": %q, "reason": "r"`, strings.Repeat("x", 101)),
		"break":  `"author": "ops", "reason": "a\u001b[2J"`,
		"marks":  fmt.Sprintf(`"author": "ops", "reason": %q`, strings.Repeat("<", 1000)),
	}
	for name, said := range long {
		a := all[1].ask(t, http.MethodPut, "/v1/override", `{"rule": "api", "parts": {"header.X-User": "bob"}, "limits": ["100/h"], `+said+`}`)
		if a.status != http.StatusBadRequest {
			t.Errorf("%s: answered %d %.300s", name, a.status, a.body)
		}
	}
	if a := all[1].ask(t, http.MethodGet, "/v1/audit", ""); strings.Contains(a.body, "bob") {
		t.Errorf("it is written down: %.300s", a.body)
	}
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
}

// TestFleetRemovalRefused: a removal that is refused has removed nothing.
func TestFleetRemovalRefused(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	network := redistest.StartProxy(t, redis.Addr)
	b := node(t, "redis://"+network.Addr+"?timeout=50ms")
	until(t, "a change for all", func() bool {
		a, _ := b.tell(t, http.MethodPut, `, "limits": ["100/h"]`)
		return a.status == http.StatusOK
	})
	allFull(t, 100, b)
	b.mustTell(t, http.MethodPut, `, "limits": ["7/h"], "this_node": true`)
	got, _ := b.tell(t, http.MethodDelete, `, "version": "1.ABC"`)
	if got.status != http.StatusConflict {
		t.Errorf("a removal of another version: %d %s", got.status, got.body)
	}
	allFull(t, 7, b)
	b.mustTell(t, http.MethodPut, `, "limits": ["7/h"], "this_node": true`)
	network.Set(redistest.Swallowing)
	until(t, "the node to say that it is alone", func() bool {
		return strings.Contains(fetch(t, http.DefaultClient, b.admin+"/readyz").body, "overrides: as this node has them")
	})
	got, _ = b.tell(t, http.MethodDelete, "")
	t.Logf("a removal in an outage: %d %s", got.status, got.body)
	network.Set(redistest.Faithful)
	if got.status == http.StatusServiceUnavailable { // it was refused
		allFull(t, 7, b)
	}
}

// TestFleetResetOfLongKey: a reset of a key of 1,200 bytes that 16 rules have must not cut
// the node off from what others change.
func TestFleetResetOfLongKey(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	var rules strings.Builder
	fmt.Fprintf(&rules, "store: {redis: {url: %q}}\nrules:\n  - {name: api, by: header.X-User, limits: 3/h sliding-log}\n", redis.URL())
	for i := range 15 {
		fmt.Fprintf(&rules, "  - {name: r%d, by: header.X-User, limits: 3/h}\n", i)
	}
	a, b := start(t, rules.String()), start(t, rules.String())
	until(t, "a change for all", func() bool {
		x, _ := a.tell(t, http.MethodPut, `, "limits": ["50/h"]`)
		return x.status == http.StatusOK
	})
	allFull(t, 50, a, b)
	got := b.ask(t, http.MethodPost, "/v1/key/reset", fmt.Sprintf(`{"parts": {"header.X-User": %q}, "author": "ops"}`, strings.Repeat("k", 1200)))
	if got.status != http.StatusOK || strings.Contains(got.body, "not_told") {
		t.Errorf("reset: %d %s", got.status, got.body)
	}
	a.mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, b)
}
