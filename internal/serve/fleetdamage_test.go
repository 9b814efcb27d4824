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

// TestFleetWithoutRights: with the rights that redisstore alone needs the node says in its
// log what is missing.
func TestFleetWithoutRights(t *testing.T) {
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
	r := node(t, "redis://sluice@"+redis.Addr+redistest.Patient+"&password_file="+file)
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
	a := node(t, redis.URL(), kept)
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
	a = node(t, redis.URL(), kept)
	allFull(t, 99, a)
	done := a.mustTell(t, http.MethodDelete, "")
	t.Logf("the removal: version %q, this node only %v, full %d", done.Version, done.ThisNodeOnly, done.Key.Limits[0].Full)
	if !within(func() bool { return a.full(t) == 3 }) {
		t.Errorf("the key has %d units after its override was removed", a.full(t))
	}
	got, _ := a.tell(t, http.MethodDelete, "")
	t.Logf("again: %d %.300s", got.status, got.body)
	if !within(func() bool { return a.full(t) == 3 }) {
		t.Errorf("the key has %d units after its override was removed again", a.full(t))
	}
}
