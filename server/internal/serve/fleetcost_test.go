// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// manyOverrides writes a node's file with n overrides for all nodes.
func manyOverrides(t *testing.T, n int) (file string) {
	t.Helper()
	var doc struct {
		Version   int                `json:"version"`
		Overrides []overrides.Stored `json:"overrides"`
	}
	doc.Version = 1
	added := time.Now()
	for i := range n {
		doc.Overrides = append(doc.Overrides, overrides.Stored{
			Rule: "api", Added: added, Version: fmt.Sprint(i + 1), Override: policy.Override{
				Key: []string{fmt.Sprintf("customer-%08d", i)}, Limits: []policy.Limit{{Limit: sluice.MustParseLimit("500/min sliding-log")}},
				Reason: "ticket 4711, until the contract is signed", Author: "ops",
			},
		})
	}
	text := testkit.JSON(t, doc)
	file = testkit.TempFile(t, "overrides.json", text)
	return file
}

// change changes 20 overrides on a node.
func change(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	for i := range 20 {
		document := fmt.Sprintf(`{"rule": "api", "parts": {"header.X-User": "customer-%08d"}, "limits": ["%d/min"], "reason": "ticket", "author": "ops"}`, i, 600+i)
		if got := r.Ask(t, http.MethodPut, "/v1/override", document); got.Status != http.StatusOK {
			t.Fatalf("a change: %d %s", got.Status, got.Body)
		}
	}
}

// TestFleetOfManyOverrides: the largest number of overrides is put back into an empty store,
// learnt by another node, and changed.
func TestFleetOfManyOverrides(t *testing.T) {
	t.Parallel()
	n := testkit.Steps(500, 10_000)
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	file := manyOverrides(t, n)
	a := node(t, redis.URL(), func(o *serve.Options) { o.Overrides = file })
	testkit.Until(t, "the store to have all", func() bool { return redistest.Number(t, client, "HLEN", "sluice{fleet}!overrides") == int64(n)+1 })
	b := node(t, redis.URL())
	has := func(r *servetest.Gateway, n int) bool {
		return strings.Contains(r.Ask(t, http.MethodGet, "/v1/overview", "").Body, fmt.Sprintf(`"overrides": %d`, n))
	}
	testkit.Until(t, "the other node to have all", func() bool { return has(b, n) })

	change(t, a)
	testkit.Until(t, "the other node to learn the changes", func() bool {
		return strings.Contains(b.Ask(t, http.MethodGet, "/v1/key?rule=api&header.X-User=customer-00000019", "").Body, `"full": 619`)
	})
	change(t, b)
	one := `{"rule": "api", "parts": {"header.X-User": "one-more"}, "limits": ["1/min"], "reason": "ticket", "author": "ops"}`
	if got := a.Ask(t, http.MethodPut, "/v1/override", one); n == 10_000 && (got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "there are 10000 already")) {
		t.Errorf("one more: %d %s", got.Status, got.Body)
	}
}

// TestFleetExpiry: an override ends on all nodes at its time.
func TestFleetExpiry(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	url := redis.URL()
	all := nodes(t, url, 2)
	mustTell(t, all[0], http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	testkit.Until(t, "a change that comes before its end", func() bool {
		got, _ := tell(t, all[0], http.MethodPut, fmt.Sprintf(`, "limits": ["100/h"], "expires": %q`, time.Now().Add(time.Second).UTC().Format(time.RFC3339Nano)))
		return got.Status == http.StatusOK
	})
	allFull(t, 3, all...)
}

// TestFleetRights: the user in the guide has all rights that a node needs.
func TestFleetRights(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	words := strings.Fields("ACL SETUSER node on >0123456789abcdef resetkeys ~sluice{1* ~sluice{fleet}!* resetchannels -@all +@read +@write +@scripting +@connection +time +info")
	redistest.Do(t, client, words...)
	file := testkit.TempFile(t, "password", "0123456789abcdef")
	all := nodes(t, "redis://node@"+redis.Addr+redistest.Patient+"&password_file="+file, 2)
	mustTell(t, all[0], http.MethodPut, `, "limits": ["100/h"]`)
	allFull(t, 100, all...)
	all[1].Want(t, http.StatusOK, "/?userId=u", "X-User", "ada")
}
