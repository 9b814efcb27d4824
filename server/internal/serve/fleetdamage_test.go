// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestFleetWithoutRights: a node with redisstore's rights alone logs the missing ones.
func TestFleetWithoutRights(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	redistest.Do(t, client, strings.Fields("ACL SETUSER sluice on >pw resetkeys ~sluice{1* resetchannels -@all +@read +@write +@scripting +@connection +info +time +cluster")...)
	file := testkit.TempFile(t, "password", "pw")
	r := node(t, "redis://sluice@"+redis.Addr+redistest.Patient+"&password_file="+file)
	warning(t, r, "NOPERM")
	got, _ := tell(t, r, http.MethodPut, `, "limits": ["100/h"]`)
	if got.Status != http.StatusServiceUnavailable || !strings.Contains(got.Body, "refuses") {
		t.Errorf("a change: %d %s", got.Status, got.Body)
	}
	testkit.Contains(t, servetest.Ready(t, r).Body, "NOPERM")
}

// TestFleetAllRestarted: after a restart of the node and of a store without persistence, as
// after a loss of power, a confirmed removal holds.
func TestFleetAllRestarted(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	file := filepath.Join(t.TempDir(), "overrides.json")
	kept := func(o *serve.Options) { o.Overrides = file }
	a := node(t, redis.URL(), kept)
	untilTold(t, a, `, "limits": ["50/h"]`)
	for i := range 9 {
		mustTell(t, a, http.MethodPut, fmt.Sprintf(`, "limits": ["%d/h"]`, 91+i))
	}
	a.End(t)
	redis.Kill(t)
	redis.Run(t)
	a = node(t, redis.URL(), kept)
	allFull(t, 99, a)
	mustTell(t, a, http.MethodDelete, "")
	allFull(t, 3, a)
	tell(t, a, http.MethodDelete, "")
	allFull(t, 3, a)
}
