// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/server/internal/fleetview"
	"github.com/sluicegate/sluice/server/internal/report"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
	"github.com/sluicegate/sluice/server/internal/sharedstore"
)

// viewRules are the rules of each gateway.
const viewRules = `
  - {name: api, by: header.X-User, limits: 1000/h sliding-log, candidates: {few: 10/h sliding-log}}
  - {name: login, match: {path: /login}, by: header.X-User, limits: 5/h sliding-log}
  - {name: idle, match: {path: /never}, by: ip, limits: 2/min}
`

// nodesOf starts n gateways of a fleet, with one file.
func nodesOf(t *testing.T, n int, server *redistest.Server, rules string) (nodes []*servetest.Gateway) {
	t.Helper()
	file := fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\nrules:%s", servetest.Named(t, "up"), server.URL(), rules)
	for range n {
		nodes = append(nodes, servetest.Start(t, file))
	}
	return nodes
}

// fleetOf returns what a node shows of the fleet.
func fleetOf(t *testing.T, r *servetest.Gateway, query string) fleetview.Fleet {
	t.Helper()
	return servetest.Document[fleetview.Fleet](t, r, "/v1/fleet"+query)
}

// fleetSays reports whether a note of a kind has a text.
func fleetSays(f *fleetview.Fleet, kind, text string) bool {
	return slices.ContainsFunc(f.Notes, func(n fleetview.Note) bool { return n.Kind == kind && strings.Contains(n.Text, text) })
}

// TestFleet: any of three gateways shows the sum of all: each request once, and each key once.
func TestFleet(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	nodes := nodesOf(t, 3, server, viewRules)
	asked, users := 0, map[string]bool{"ada": true}
	for i, r := range nodes {
		for j := range 40 + 10*i { // many of which are also the previous node's
			user := strconv.Itoa(30*i + j)
			r.Get(t, "/", "X-User", user)
			users[user] = true
			asked++
		}
		for range 4 { // of 5 for all
			r.Get(t, "/login", "X-User", "ada")
			asked++
		}
	}
	for _, r := range nodes {
		var f fleetview.Fleet
		testkit.Until(t, "all nodes to report", func() bool {
			f = fleetOf(t, r, "")
			return f.Summed == 3 && f.Requests.Total.Allowed+f.Requests.Total.Denied == uint64(asked) && f.Rules[0].KeysHour != nil
		})
		checkFleet(t, &f, asked, len(users))
		one := fleetOf(t, r, "?rule=login")
		sum := uint64(0)
		for _, n := range one.Rules[0].Nodes {
			sum += n.Allowed + n.Denied
		}
		if len(one.Rules) != 1 || len(one.Rules[0].Nodes) != 3 || sum != 12 || one.Rules[0].Day.Sum().Denied != 7 {
			t.Errorf("one rule: %+v", one.Rules)
		}
		if each := fleetOf(t, r, "?nodes=1"); len(each.Rules[0].Nodes) != 3 {
			t.Errorf("each node: %+v", each.Rules[0])
		}
	}
	servetest.Want(t, http.StatusNotFound, http.DefaultClient, nodes[0].Admin+"/v1/fleet?rule=nope")
	nodes[2].End(t)
	testkit.Until(t, "a node that has ended to be gone at once", func() bool {
		f := fleetOf(t, nodes[0], "")
		return len(f.Nodes) == 2 && f.Summed == 2
	})
}

// checkFleet checks one node's view of three.
func checkFleet(t *testing.T, f *fleetview.Fleet, asked, users int) {
	t.Helper()
	if total := f.Requests.Total; total.Denied != 7 || !f.Shared || len(f.Nodes) != 3 || len(f.Notes) != 0 || f.Unreported != 0 {
		t.Errorf("got %+v, notes %+v, nodes %+v", total, f.Notes, f.Nodes)
	}
	api, login, idle := f.Rules[0], f.Rules[1], f.Rules[2]
	if api.Allowed != uint64(asked-7) || api.KeysHour.Seen != int64(users) || api.Candidates[0].Evaluated != uint64(asked) {
		t.Errorf("api: %+v, keys %+v of %d, candidates %+v", api.Counts, api.KeysHour, users, api.Candidates)
	}
	if login.Allowed != 5 || login.Denied != 7 || login.KeysHour.Seen != 1 || login.Lately.Denied != 7 || len(login.Top) != 1 || login.Top[0].Total != 7 {
		t.Fatalf("login: %+v, keys %+v, top %+v", login.Counts, login.KeysHour, login.Top)
	}
	if k := login.Top[0].Keys[0]; k.Least != 7 || k.Most != 7 || k.Parts["header.X-User"] != "ada" {
		t.Errorf("denied most: %+v", k)
	}
	if idle.Allowed != 0 || idle.Limits[0] != "2/min" || idle.Elsewhere || len(login.Nodes) != 0 {
		t.Errorf("idle: %+v; %d nodes are reported of login though they were not asked for", idle, len(login.Nodes))
	}
	this := 0
	for _, n := range f.Nodes {
		if n.Name == "" || n.Version == "" || n.Config == "" || n.Failed || !n.StoreUp || n.Silent || n.Total.Allowed == 0 || n.Uptime() < 0 || n.Seen > 20 {
			t.Errorf("node %+v", n)
		}
		if n.This {
			this++
		}
	}
	if this != 1 {
		t.Errorf("%d nodes are this one", this)
	}
}

// TestFleetAlone: without a shared store the fleet is one node.
func TestFleetAlone(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules:%s", servetest.Named(t, "up"), viewRules))
	for range 7 {
		s.Get(t, "/login", "X-User", "ada")
	}
	f := fleetOf(t, s, "")
	if f.Shared || len(f.Nodes) != 1 || !f.Nodes[0].This || len(f.Notes) != 0 || f.Rules[1].Denied != 2 || f.Rules[1].Top[0].Keys[0].Least != 2 {
		t.Errorf("got %+v", f)
	}
}

// TestFleetDiffers: the view names the nodes whose configurations differ, and shows a rule
// that only another node has.
func TestFleetDiffers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	a := nodesOf(t, 1, server, viewRules)[0]
	b := nodesOf(t, 1, server, viewRules+"  - {name: more, match: {path: /more}, by: ip, limits: 1/h sliding-log}\n")[0]
	for range 3 {
		b.Get(t, "/more", "X-User", "ada")
	}
	var f fleetview.Fleet
	testkit.Until(t, "both to report", func() bool {
		f = fleetOf(t, a, "")
		return f.Summed == 2 && len(f.Rules) == 4 && f.Requests.Total.Requests() == 3
	})
	if !fleetSays(&f, "warn", "nodes run different configurations: ") || !fleetSays(&f, "warn", b.Hash(t)+" at ") {
		t.Errorf("notes %+v", f.Notes)
	}
	if fleetSays(&f, "note", "nodes run different") {
		t.Errorf("notes %+v", f.Notes)
	}
	if more := f.Rules[3]; more.Name != "more" || !more.Elsewhere || more.Denied != 2 || more.Allowed != 1 {
		t.Errorf("got %+v", more)
	}
}

// TestFleetFiles: different files with the same rules cause no warning.
func TestFleetFiles(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	file := fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\nrules:%s", servetest.Named(t, "up"), server.URL(), viewRules)
	a := servetest.Start(t, file)
	servetest.Start(t, file+"# at another address\n")
	testkit.Until(t, "both to report", func() bool {
		f := fleetOf(t, a, "")
		return f.Summed == 2 && len(f.Notes) == 1 && fleetSays(&f, "note", "nodes run different files of the same rules: ")
	})
}

// TestFleetWithoutStore: while the store is unavailable a node shows its own counts, says so,
// and states the age of the rest.
func TestFleetWithoutStore(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	nodes := nodesOf(t, 2, server, viewRules)
	a, b := nodes[0], nodes[1]
	a.Get(t, "/", "X-User", "ada")
	b.Get(t, "/", "X-User", "ada")
	testkit.Until(t, "both to report", func() bool { return fleetOf(t, a, "").Requests.Total.Allowed == 2 })
	server.Kill(t)
	var f fleetview.Fleet
	testkit.Until(t, "the outage to be noticed", func() bool {
		f = fleetOf(t, a, "")
		return f.Summed == 1
	})
	if f.Requests.Total.Allowed != 1 || len(f.Nodes) != 2 || f.Rules[0].Allowed != 1 || !fleetSays(&f, "bad", "the counts of this node alone; the other one was read ") {
		t.Errorf("got %+v, notes %+v", f.Requests.Total, f.Notes)
	}
	server.Run(t)
	testkit.Until(t, "both to report again", func() bool {
		f = fleetOf(t, b, "")
		return f.Summed == 2 && f.Requests.Total.Allowed == 2 && len(f.Notes) == 0
	})
}

// TestFleetHostile: reports written by a stranger are skipped, with a note.
func TestFleetHostile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	nodes := nodesOf(t, 2, server, viewRules)
	a, b := nodes[0], nodes[1]
	a.Get(t, "/", "X-User", "ada")
	b.Get(t, "/", "X-User", "ada")
	testkit.Until(t, "both to report", func() bool {
		f := fleetOf(t, a, "")
		return f.Summed == 2 && f.Requests.Total.Allowed == 2
	})
	client := server.Client(t)
	write := func(key, id, text string) {
		t.Helper()
		const script = `local t = redis.call('TIME') local at = string.format('%016.0f', t[1] * 1000000 + t[2]) redis.call('HSET', KEYS[1], ARGV[1], at .. ARGV[2], 'at:' .. ARGV[1], at) return 1`
		redistest.Do(t, client, "EVAL", script, "1", "sluice{fleet}!"+key, id, text)
	}
	write("nodes", "later", `{"v":2,"id":"later"}`)
	write("nodes", "long", `{"v":1,"id":"long","name":"`+strings.Repeat("x", 1<<20)+`"}`)
	write("nodes", strings.Repeat("i", 1000), "{}")
	write("nodes", "mine", `{"v":1,"id":"mine","name":"<script>","config":"x","store_up":true}`)
	write("reports", "mine", strings.Repeat("x", report.MostReportBytes))
	var f fleetview.Fleet
	testkit.Until(t, "the stranger to be skipped", func() bool {
		f = fleetOf(t, a, "")
		return fleetSays(&f, "warn", "<script>: not in the sum: its report cannot be used: ")
	})
	if f.Summed != 2 || f.Requests.Total.Allowed != 2 || !fleetSays(&f, "warn", "cannot be read: they have another version") {
		t.Errorf("summed %d, notes %+v", f.Summed, f.Notes)
	}
}

// TestFleetUnreported: nodes that share the store without reports, for example without the
// rights, are noted.
func TestFleetUnreported(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	a := nodesOf(t, 1, server, viewRules)[0]
	heartbeatOf(t, server, "c", "d")
	b := nodesOf(t, 1, server, viewRules)[0] // counts them with its first heartbeat
	a.Get(t, "/", "X-User", "ada")
	testkit.Until(t, "both to report, and the others to be missing", func() bool {
		f := fleetOf(t, b, "")
		return f.Summed == 2 && f.Unreported == 2 && fleetSays(&f, "warn", "2 nodes do not report: ")
	})
}

// heartbeatOf adds nodes to the heartbeats of a store.
func heartbeatOf(t *testing.T, server *redistest.Server, ids ...string) {
	t.Helper()
	s, err := rueidisstore.Open(t.Context(), server.URL(), redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, s)
	slots, err := sluice.NewSlots(s, sharedstore.HeartbeatScope, sharedstore.HeartbeatLimit)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if _, err := slots.Acquire(t.Context(), "", id, 1); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDifferentUpstreams: programs on one store with rules of the same name and different
// upstreams are noticed by the later one, and on the page of each. They continue to share.
// Different rule names separate them.
func TestDifferentUpstreams(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	start := func(upstream, rule string) *servetest.Gateway {
		return servetest.Start(t, fmt.Sprintf("upstream: %q\nstore: {redis: {url: %q}}\nrules: [{name: %s, by: header.X-User, limits: 3/h}]",
			upstream, server.URL(), rule))
	}
	shop, blog := servetest.Named(t, "shop"), servetest.Named(t, "blog")
	const says = "nodes of different upstreams count under the name gateway"
	first := start(shop, "gateway")
	testkit.Until(t, "the first node to be seen", func() bool { return len(server.List(t, "KEYS", "*nodes*")) > 0 })
	second := start(blog, "gateway")
	testkit.Until(t, "the second to warn in its log", func() bool { return strings.Contains(second.Logs.String(), says) })
	for _, r := range []*servetest.Gateway{first, second} {
		var f fleetview.Fleet
		testkit.Until(t, "both to be shown", func() bool { f = fleetOf(t, r, ""); return len(f.Nodes) == 2 })
		if !fleetSays(&f, "warn", says) || !fleetSays(&f, "warn", shop) || !fleetSays(&f, "warn", blog) || !fleetSays(&f, "warn", "--name") {
			t.Errorf("notes %+v", f.Notes)
		}
	}
	for i := range 4 {
		if got := []*servetest.Gateway{first, second}[i%2].Get(t, "/", "X-User", "ada"); (got.Status == http.StatusOK) != (i < 3) {
			t.Errorf("request %d: %d", i+1, got.Status)
		}
	}
	second.End(t)
	third := start(blog, "blog")
	var f fleetview.Fleet
	testkit.Until(t, "the third to be shown", func() bool {
		f = fleetOf(t, third, "")
		return len(f.Nodes) == 2 && f.Summed == 2
	})
	if fleetSays(&f, "warn", "") || !fleetSays(&f, "note", "shares no rule with this node") || strings.Contains(third.Logs.String(), "different upstreams") {
		t.Errorf("notes %+v, log %s", f.Notes, third.Logs)
	}
	third.Want(t, http.StatusOK, "/", "X-User", "ada")
}
