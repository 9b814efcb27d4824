// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestKeyAdd: an add gives a key that has spent all its units back, and credit, once. The
// log names the author.
func TestKeyAdd(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit")
	s := servetest.Start(t, fmt.Sprintf(`upstream: %q
rules:
  - {name: api, match: {path: /api}, by: ip, limits: 5/h credit 3 credit-for 1h}
  - {name: tiers, match: {path: /tiers}, by: header.X-User, limits: 9/h, tiers: {by: header.X-Plan, limits: {pro: 7/h sliding-log, vip: none}}}
  - {name: other, match: {path: /other}, by: ip, limits: 9/h}
  - {name: runs, match: {path: /runs}, by: header.X-Run, in_flight: 3}
`, servetest.Named(t, "up")), servetest.Stopped, func(o *serve.Options) { o.Audit = audit })
	key := func(exit int, args ...string) string {
		t.Helper()
		out, errs := command(t, exit, append([]string{"key", args[0], "--admin=" + s.Admin}, args[1:]...)...)
		return out + errs
	}
	for range 5 {
		s.Want(t, http.StatusOK, "/api")
	}
	s.Want(t, http.StatusTooManyRequests, "/api")
	for _, c := range []struct {
		exit int
		args []string
		want string
	}{
		{cli.OK, []string{"add", "ip=127.0.0.1", "--rule=api", "--units=7", "--reason=paid", "--author=eve"}, "add to api: ip=127.0.0.1\n  token-bucket.hour: 5/hour burst 5 credit 3 credit-for 1hour: 7 given, 7 left\non this node only"},
		{cli.OK, []string{"show", "ip=127.0.0.1", "--rule=api"}, "all 5 left, and 2 of credit; full in "},
		{cli.OK, []string{"add", "ip=127.0.0.1", "--rule=api", "--units=7", "--author=eve"}, "1 given, 8 left"},
		{cli.OK, []string{"add", "header.X-User=ada", "header.X-Plan=pro", "--units=7", "--author=eve"}, "7/hour sliding-log: 0 given, 7 left"},
		{cli.Failed, []string{"add", "header.X-User=ada", "--units=7", "--author=eve"}, "name that, too: header.X-Plan=TIER"},
		{cli.Failed, []string{"add", "header.X-User=ada", "header.X-Plan=vip", "--units=7", "--author=eve"}, "nothing to add to"},
		{cli.Failed, []string{"add", "header.X-Run=1", "--units=7", "--author=eve"}, "nothing to add to"},
		{cli.Failed, []string{"add", "ip=127.0.0.1", "--units=7", "--author=eve"}, "several rules"},
		{cli.Usage, []string{"add", "ip=127.0.0.1", "--rule=api", "--author=eve"}, "such as --units 50"},
		{cli.Failed, []string{"add", "ip=127.0.0.1", "--rule=api", "--units=9007199254740992", "--author=eve"}, "must be 1 to"},
		{cli.Failed, []string{"add", "ip=127.0.0.1", "--rule=none", "--units=7", "--author=eve"}, `no rule "none"`},
	} {
		testkit.Contains(t, key(c.exit, c.args...), c.want)
	}
	for i := range 9 {
		if got, allowed := s.Get(t, "/api"), i < 8; (got.Status == http.StatusOK) != allowed {
			t.Errorf("request %d: got %d", i, got.Status)
		}
	}
	written := testkit.ReadFile(t, audit)
	testkit.Contains(t, string(written), `"action":"add"`, `"author":"eve"`, `"reason":"paid"`, `"units":7`)
}
