// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
)

// within reports whether something is so within 5 s.
func within(ok func() bool) bool {
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}

// TestFleetLongReason: a request that is refused does not cut the node off.
func TestFleetLongReason(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	all := nodes(t, "redis://"+redis.Addr, 2)
	allFull(t, 3, all...)
	a := all[1].ask(t, http.MethodPut, "/v1/override", `{"rule": "api", "parts": {"header.X-User": "bob"}, "limits": ["100/h"], "author": "ops", "reason": "`+strings.Repeat("x", 20<<10)+`"}`)
	t.Logf("answered %d %.300s", a.status, a.body)
	all[0].mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	if !within(func() bool { return all[1].full(t) == 100 }) {
		t.Errorf("the other node has not learned the change; it says:\n%s", fetch(t, http.DefaultClient, all[1].admin+"/readyz").body)
	}
}

// TestFleetResetOfLongKey: a reset of a key of 1,200 bytes that 16 rules have must not cut
// the node off from what others change.
func TestFleetResetOfLongKey(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	var rules strings.Builder
	fmt.Fprintf(&rules, "store: {redis: {url: %q}}\nrules:\n  - {name: api, by: header.X-User, limits: 3/h sliding-log}\n", "redis://"+redis.Addr)
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
	_, told, _ := strings.Cut(got.body, "this_node_only")
	t.Logf("reset: %d ...%s", got.status, told)
	a.mustTell(t, http.MethodPut, `, "limits": ["100/h"]`)
	if !within(func() bool { return b.full(t) == 100 }) {
		t.Errorf("the node that was asked for the reset has %d units; /readyz:\n%s", b.full(t), fetch(t, http.DefaultClient, b.admin+"/readyz").body)
	}
}

// TestFleetOldRights: with the rights that redisstore alone needs, as before an upgrade, the
// node says in its log what is missing.
func TestFleetOldRights(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	err := client.Do(t.Context(), client.B().Arbitrary(strings.Fields("ACL SETUSER sluice on >pw resetkeys ~sluice{1* resetchannels -@all +@read +@write +@scripting +@connection +info +time +cluster")...).Build()).Error()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("pw"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := node(t, "redis://sluice@"+redis.Addr+"?password_file="+file)
	if !within(func() bool { return strings.Contains(r.logs.String(), "NOPERM") }) {
		t.Errorf("the log does not say so:\n%s", r.logs.String())
	}
	got, _ := r.tell(t, http.MethodPut, `, "limits": ["100/h"]`)
	if got.status != http.StatusServiceUnavailable || !strings.Contains(got.body, "refuses") {
		t.Errorf("a change: %d %s", got.status, got.body)
	}
	if text := fetch(t, http.DefaultClient, r.admin+"/readyz").body; !strings.Contains(text, "NOPERM") {
		t.Errorf("/readyz: %s", text)
	}
}

// TestFleetAllRestarted: the store, which keeps nothing on disk, and the node are both
// restarted, as after a loss of power; a removal that is answered as made holds.
func TestFleetAllRestarted(t *testing.T) {
	redis := redistest.Start(t, redistest.Redis(t))
	file := filepath.Join(t.TempDir(), "overrides.json")
	kept := func(o *Options) { o.Overrides = file }
	a := node(t, "redis://"+redis.Addr, kept)
	until(t, "a change for all", func() bool {
		a, _ := a.tell(t, http.MethodPut, `, "limits": ["50/h"]`)
		return a.status == http.StatusOK
	})
	for i := range 9 {
		a.mustTell(t, http.MethodPut, fmt.Sprintf(`, "limits": ["%d/h"]`, 91+i))
	}
	a.end(t)
	redis.Kill(t)
	redis.Run(t)
	a = node(t, "redis://"+redis.Addr, kept)
	allFull(t, 99, a)
	got, done := a.tell(t, http.MethodDelete, "")
	t.Logf("the removal: %d, version %q, this node only %v, full %d", got.status, done.Version, done.ThisNodeOnly, done.Key.Limits[0].Full)
	if !within(func() bool { return a.full(t) == 3 }) {
		t.Errorf("the key has %d units after its override was removed", a.full(t))
	}
	got, _ = a.tell(t, http.MethodDelete, "")
	t.Logf("again: %d %.300s", got.status, got.body)
	if !within(func() bool { return a.full(t) == 3 }) {
		t.Errorf("the key has %d units after its override was removed again", a.full(t))
	}
}
