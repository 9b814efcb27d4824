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

// TestFleetLongReason: a change that nodes cannot share is refused before anything is written,
// and the node continues to learn others' changes.
func TestFleetLongReason(t *testing.T) {
	t.Parallel()
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
		a := all[1].Ask(t, http.MethodPut, "/v1/override", `{"rule": "api", "parts": {"header.X-User": "bob"}, "limits": ["100/h"], `+said+`}`)
		if a.Status != http.StatusBadRequest {
			t.Errorf("%s: answered %d %.300s", name, a.Status, a.Body)
		}
	}
	if a := all[1].Ask(t, http.MethodGet, "/v1/audit", ""); strings.Contains(a.Body, "bob") {
		t.Errorf("it is written down: %.300s", a.Body)
	}
	mustTell(t, all[0], http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
}

// TestFleetLaterFormat: a change of a record of a later release is refused as a conflict, with
// a remedy.
func TestFleetLaterFormat(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	r := node(t, redis.URL())
	mustTell(t, r, http.MethodPut, `, "limits": ["100/h"]`)
	for _, field := range redis.List(t, "HKEYS", "sluice{fleet}!overrides") {
		if field == "!revision" {
			continue
		}
		redis.Do(t, "HSET", "sluice{fleet}!overrides", field, "3000000000000 2x")
	}
	for method, more := range map[string]string{http.MethodPut: `, "limits": ["200/h"]`, http.MethodDelete: ""} {
		if got, _ := tell(t, r, method, more); got.Status != http.StatusConflict || !strings.Contains(got.Body, "update this node") {
			t.Errorf("%s: %d %s", method, got.Status, got.Body)
		}
	}
	allFull(t, 100, r)
}

// TestFleetRemovalRefused: a refused removal removes nothing.
func TestFleetRemovalRefused(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	network := redistest.StartProxy(t, redis.Addr)
	b := node(t, "redis://"+network.Addr+hanging)
	untilTold(t, b, `, "limits": ["100/h"]`)
	allFull(t, 100, b)
	mustTell(t, b, http.MethodPut, `, "limits": ["7/h"], "this_node": true`)
	got, _ := tell(t, b, http.MethodDelete, `, "version": "1"`)
	if got.Status != http.StatusConflict {
		t.Errorf("a removal of another version: %d %s", got.Status, got.Body)
	}
	allFull(t, 7, b)
	mustTell(t, b, http.MethodPut, `, "limits": ["7/h"], "this_node": true`)
	network.Set(redistest.Swallowing)
	testkit.Until(t, "the node to say that it is alone", func() bool {
		return strings.Contains(servetest.Ready(t, b).Body, "overrides: those of this node")
	})
	got, _ = tell(t, b, http.MethodDelete, "")
	t.Logf("a removal in an outage: %d %s", got.Status, got.Body)
	network.Set(redistest.Faithful)
	if got.Status == http.StatusServiceUnavailable { // it was refused
		allFull(t, 7, b)
	}
}

// TestFleetResetOfLongKey: a reset of a key of 1,200 bytes under 16 rules does not cut the
// node off from others' changes.
func TestFleetResetOfLongKey(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	var rules strings.Builder
	fmt.Fprintf(&rules, "store: {redis: {url: %q}}\nrules:\n  - {name: api, by: header.X-User, limits: 3/h sliding-log}\n", redis.URL())
	for i := range 15 {
		fmt.Fprintf(&rules, "  - {name: r%d, by: header.X-User, limits: 3/h}\n", i)
	}
	a, b := servetest.Start(t, rules.String()), servetest.Start(t, rules.String())
	untilTold(t, a, `, "limits": ["50/h"]`)
	allFull(t, 50, a, b)
	got := b.Ask(t, http.MethodPost, "/v1/key/reset", fmt.Sprintf(`{"parts": {"header.X-User": %q}, "author": "ops"}`, strings.Repeat("k", 1200)))
	if got.Status != http.StatusOK || strings.Contains(got.Body, "not_told") {
		t.Errorf("reset: %d %s", got.Status, got.Body)
	}
	mustTell(t, a, http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, b)
}
