// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestKeyShowsPlans: the state of a key depends on the plan that its requests name. Without
// one every plan is shown, with the way to name one.
func TestKeyShowsPlans(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+`
rules:
  - {name: api, by: ip, limits: 60/min sliding-log, tiers: {by: header.X-Plan, limits: {pro: 600/min, team: [900/min, "all: 5000/h"]}}}
  - {name: plain, by: ip, limits: 70/min}
`, servetest.Stopped)
	key := func(verb string, args ...string) string {
		t.Helper()
		out, _ := command(t, cli.OK, append([]string{"key", verb, "ip=127.0.0.1", "--admin=" + s.Admin}, args...)...)
		return out
	}
	check := func(out string, want, not []string) {
		t.Helper()
		testkit.Contains(t, out, want...)
		for _, text := range not {
			if strings.Contains(out, text) {
				t.Errorf("has %q:\n%s", text, out)
			}
		}
	}
	for range 52 {
		s.Want(t, http.StatusOK, "/", "X-Plan", "pro")
	}
	none, pro, team := "8 of 60 left", "548 of 600 left", "848 of 900 left"
	check(key("show"), []string{
		"a request's header.X-Plan names the tier; add header.X-Plan=NAME to see one tier",
		"  no tier: sliding-log.min: 60/min sliding-log\n    " + none,
		"  tier pro: sliding-log.min: 600/min sliding-log\n    " + pro,
		"  tier team: sliding-log.min: 900/min sliding-log\n    " + team,
		"  tier team: all: 5000/hour sliding-log\n    all 5000 left",
		"plain: ip=127.0.0.1\n  token-bucket.min: 70/min burst 70\n",
	}, nil)
	check(key("show", "header.X-Plan=pro", "--rule=api"), []string{"  tier pro: ", pro}, []string{none, team, "NAME"})
	check(key("show", "header.X-Plan=", "--rule=api"), []string{"  no tier: ", none}, []string{pro, "NAME"})
	check(key("show", "header.X-Plan=gold", "--rule=api"), []string{`the rule has no tier "gold"`, "  no tier: ", none}, []string{pro})

	s.Get(t, "/", "X-Plan", "team")
	check(key("show", "header.X-Plan=team", "--rule=api"), []string{"4999 of 5000 left"}, nil)
	key("reset", "--rule=api", "--author=eve") // under whatever plan it has spent
	check(key("show", "--rule=api"), []string{"all 60 left", "all 600 left", "all 900 left", "all 5000 left"}, nil)

	key("override", "--rule=api", "--limit=10/min", "--reason=x")
	check(key("show", "--rule=api"), []string{"override: x", "  sliding-log.min: 10/min sliding-log\n"}, []string{"plan"})
	check(key("override", "--rule=api", "--remove"), []string{"tier pro"}, nil)
}

// TestKeyShowsFewPlans: some of many plans are shown, with a note that there are more.
func TestKeyShowsFewPlans(t *testing.T) {
	t.Parallel()
	var plans strings.Builder
	for i := range 100 {
		fmt.Fprintf(&plans, "p%02d: %d/min, ", i, i+1)
	}
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: api, by: ip, limits: 60/min, tiers: {by: header.X-Plan, limits: {%s}}}]\n", servetest.Named(t, "up"), plans.String()), servetest.Stopped)
	out, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "--admin="+s.Admin)
	if !strings.Contains(out, "tier p15: ") || strings.Contains(out, "tier p16: ") || !strings.Contains(out, "  84 more tiers; add header.X-Plan=NAME to see one\n") {
		t.Errorf("got\n%s", out)
	}
}

// TestKeySaysWhere: the commands say for which nodes a change of a key is.
func TestKeySaysWhere(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+keyRules, servetest.Stopped)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"override", "--limit=10/min", "--reason=x", "--rule=address"}, "on this node only: other nodes keep theirs\n"},
		{[]string{"override", "--remove", "--rule=address"}, "on this node only: other nodes keep theirs\n"},
		{[]string{"reset", "--rule=address"}, "reset address: ip=127.0.0.1\non this node only: its store is in its memory\n"},
	} {
		out, _ := command(t, cli.OK, append([]string{"key", c.args[0], "ip=127.0.0.1", "--admin=" + s.Admin}, c.args[1:]...)...)
		testkit.Contains(t, out, c.want)
	}
	server := redistest.Start(t, redistest.Redis(t))
	s = servetest.Start(t, fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\n", servetest.Named(t, "up"), server.URL())+keyRules)
	testkit.Until(t, "what the other nodes have", func() bool { return !strings.Contains(servetest.Ready(t, s).Body, "overrides: those of this node") })
	out, _ := command(t, cli.OK, "key", "reset", "ip=127.0.0.1", "--rule=address", "--admin="+s.Admin)
	testkit.Contains(t, out, "in the store, for all nodes that share it\n")
	for _, c := range []struct{ args, want string }{
		{"--limit=9/min", "on all nodes that share the store, version "},
		{"--limit=8/min --this-node", "on this node only: other nodes keep theirs\n"},
		{"--limit=7/min --version=1", "nothing was changed, as "},
	} {
		code := cli.OK
		if strings.Contains(c.args, "--version") {
			code = cli.Failed
		}
		out, stderr := command(t, code, append([]string{"key", "override", "ip=127.0.0.1", "--rule=address", "--reason=x", "--admin=" + s.Admin}, strings.Fields(c.args)...)...)
		testkit.Contains(t, out+stderr, c.want)
	}
	out, _ = command(t, cli.OK, "status", "--admin="+s.Admin)
	if want := "override of address for ip=127.0.0.1: 8/min sliding-log, until it is removed (x; "; !strings.Contains(out, want) || !strings.Contains(out, "), on this node only\n") {
		t.Errorf("got\n%s\nwant %q", out, want)
	}
	out, _ = command(t, cli.OK, "key", "audit", "--n=2", "--admin="+s.Admin)
	if !strings.Contains(out, " override by ") || !strings.Contains(out, ": x; NOT MADE: override: nothing was changed, as ") || strings.Contains(out, "on this node only") {
		t.Errorf("audit: got\n%s", out)
	}
}
