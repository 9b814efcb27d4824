// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestCandidateOfTiers: a candidate is evaluated for the requests under the limits that it
// would replace, and status and explain say so.
func TestCandidateOfTiers(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+`
rules:
  - name: api
    by: header.X-User
    limits: 60/min
    tiers: {by: header.X-Plan, limits: {pro: 600/min, vip: none}}
    overrides: [{key: eve, limits: 900/min, reason: launch, author: ops}]
    candidates:
      tighter: 1/min
      plans: {limits: 2/min, tiers: {pro: 3/min}}
`, servetest.Stopped)
	for _, plan := range []string{"", "free", "pro", "vip"} {
		for _, user := range []string{"ada" + plan, "eve"} {
			for range 4 {
				s.Want(t, 200, "/", "X-User", user, "X-Plan", plan)
			}
		}
	}
	at := "--admin=" + s.Admin
	out, _ := command(t, cli.OK, "status", at)
	said := strings.Join(strings.Fields(out), " ")
	testkit.Contains(t, said, "candidate: tighter 6 of 8", "candidate: plans 5 of 12", "candidates: of requests without tier and override, or of a tier that the candidate names")
	for _, c := range []struct{ user, plan, want string }{
		{"bob", "pro", "candidate: tighter is not evaluated: it has no limits for the tier pro\n    candidate: plans would allow"},
		{"eve", "pro", "candidate: plans is not evaluated: the key has an override"},
	} {
		if out, _ := command(t, cli.OK, "explain", "/", "--client=127.0.0.1", "--header", "X-User: "+c.user, "--header", "X-Plan: "+c.plan, at); !strings.Contains(out, c.want) {
			t.Errorf("explain lacks %q:\n%s", c.want, out)
		}
	}
}
