// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestStatusOfFleet: asked at any of three processes, the command shows the sum of all and
// names them. It reports a killed process as gone, and the store, too.
func TestStatusOfFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	upstream := servetest.Named(t, "up")
	type node struct {
		*program
		admin string
	}
	var nodes []node
	for range 3 {
		admin := testkit.FreeAddress(t)
		file := filepath.Join(t.TempDir(), "sluice.yaml")
		yaml := fmt.Sprintf("listen: 127.0.0.1:0\nadmin: {address: %q}\nupstream: %q\nstore: {redis: {url: %q}}\nrules: [{name: api, by: header.X-User, limits: 5/h sliding-log, candidates: {few: 2/h sliding-log}}]\n", admin, upstream, server.URL())
		testkit.WriteFile(t, file, yaml)
		nodes = append(nodes, node{startProgramWith(t, "--config", file), admin})
	}
	for _, n := range nodes {
		for range 4 {
			servetest.Fetch(t, http.DefaultClient, n.url, "X-User", "ada")
		}
	}
	shows := func(n node, wants []string, flags ...string) string {
		t.Helper()
		out := ""
		testkit.Until(t, fmt.Sprintf("status to have all of %q", wants), func() bool {
			out, _ = command(t, cli.OK, append([]string{"status", "--admin=" + n.admin}, flags...)...)
			words := strings.Join(strings.Fields(out), " ")
			return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(words, want) })
		})
		return out
	}
	for _, n := range nodes {
		shows(n, []string{
			"counts are the sum of 3 nodes, as of ", "this node", "all 12 5 0 0 7 0 0 0", "api 5 0 0 7 0 0 0", "candidate: few 10 of 12",
			"denied most by api, of 7 denials: 7 times header.X-User=ada",
		})
	}
	if out := shows(nodes[0], []string{"sum of 3 nodes"}, "--nodes"); strings.Count(out, "\n                 at ")+strings.Count(out, "  at ") < 3 {
		t.Errorf("of each node:\n%s", out)
	}
	if out := shows(nodes[0], []string{"api 4 0 0 0 0 0 0"}, "--this-node"); strings.Contains(out, "nodes") {
		t.Errorf("of one node:\n%s", out)
	}
	out, _ := command(t, cli.OK, "status", "--admin="+nodes[1].admin, "--json")
	var doc status
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Fleet.Summed != 3 || len(doc.Fleet.Nodes) != 3 || doc.Fleet.Requests.Total.Denied != 7 {
		t.Errorf("%v: %s", err, out)
	}
	if !testkit.IsLong() { // a node that is silent is waited for 15 s
		return
	}
	nodes[2].signal(t, syscall.SIGKILL)
	shows(nodes[0], []string{"sum of 2 nodes", "warn: ", "no report for more than 15 s; their counts are not in the sum", "not in the sum"})
	server.Kill(t)
	shows(nodes[0], []string{"sum of 1 node,", "bad: the store does not answer: these are the counts of this node alone; the 2 others were read "})
	server.Run(t)
	shows(nodes[0], []string{"sum of 2 nodes"})
}
