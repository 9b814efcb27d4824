// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// hanging is the query of the URL of a store that a test lets hang: calls time out as late as a
// URL may say.
const hanging = "?timeout=1000ms"

// warning waits for a log line with a text, and returns the first.
func warning(t *testing.T, r *servetest.Gateway, text string) (found string) {
	t.Helper()
	testkit.Until(t, "the log to say "+text, func() bool {
		for line := range strings.Lines(r.Logs.String()) {
			if strings.Contains(line, text) {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// giveUp sends requests until the store is marked unavailable.
func giveUp(t *testing.T, r *servetest.Gateway) {
	t.Helper()
	testkit.Until(t, "the store to be marked down", func() bool {
		r.Get(t, "/?userId=u")
		return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 0
	})
}

// TestOutageLog: the log states the treatment of requests in an outage, by the rules at the
// start and after a reload.
func TestOutageLog(t *testing.T) {
	t.Parallel()
	const want = `meanwhile="requests are refused"`
	server := redistest.Start(t, redistest.Redis(t))
	yaml := fmt.Sprintf("store: {redis: {url: %q}}\nrules: [{name: a, limits: 1000/min, failure: closed}]\n", server.URL())
	s := servetest.Start(t, yaml)
	server.Kill(t)
	giveUp(t, s)
	testkit.Contains(t, warning(t, s, "the store is unavailable"), want)
	testkit.Contains(t, warning(t, servetest.Start(t, yaml), "the store is unavailable at the start"), want)
}

// TestReadyInAnOutage: while the store is unavailable, a gateway is not ready only if all
// requests are refused.
func TestReadyInAnOutage(t *testing.T) {
	t.Parallel()
	const (
		web  = "listen: 127.0.0.1:0\n"
		tcp  = "listen: [{address: \"127.0.0.1:0\", serve: tcp, upstream: \"127.0.0.1:1\", open: 1, failure: %s}]\n"
		both = "listen: [127.0.0.1:0, {address: \"127.0.0.2:0\", serve: tcp, upstream: \"127.0.0.1:1\", name: db%s}]\n"
	)
	rule := func(name, more string) string { return fmt.Sprintf("  - {name: %s, limits: 1000/min%s}\n", name, more) }
	closed, open := rule("closed", ", failure: closed"), rule("open", "")
	below := func(path string) string { return ", match: {path: " + path + "/}, failure: closed" }
	for _, c := range []struct {
		name, listen, rules string
		want                int
	}{
		{"closed", web, closed, 503},
		{"open", web, open, 200},
		{"local", web, rule("a", ", failure: local"), 200},
		{"closed for all, open for some", web, closed + rule("a", ", match: {path: /a/}"), 503},
		{"closed for some, open for all", web, rule("a", below("/a")) + open, 200},
		{"closed, each for some", web, rule("a", below("/a")) + rule("b", below("/b")), 200},
		{"closed where a key is there, open for all", web, rule("a", ", by: header.X-Key, missing: skip, failure: closed") + open, 200},
		{"closed for every path", web, rule("a", ", match: {path: /}, failure: closed") + open, 503},
		{"closed for every path, in other words", web, rule("a", ", match: {path: \"/{rest...}\"}, failure: closed") + open, 503},
		{"closed for a path and every path", web, rule("a", ", match: {path: [/b, /]}, failure: closed") + open, 503},
		{"closed for the root", web, rule("a", ", match: {path: \"/{$}\"}, failure: closed") + open, 200},
		{"closed for every path but one", web, rule("a", ", match: {path: /, except_path: /b}, failure: closed") + open, 200},
		{"closed for every network", web, rule("a", ", match: {network: [0.0.0.0/0, \"::/0\"]}, failure: closed") + open, 503},
		{"closed for every network, in halves", web, rule("a", ", match: {network: [0.0.0.0/1, 128.0.0.0/1, \"::/0\"]}, failure: closed") + open, 503},
		{"closed for all of IPv4", web, rule("a", ", match: {network: 0.0.0.0/0}, failure: closed") + open, 200},
		{"closed for most networks", web, rule("a", ", match: {network: [0.0.0.0/1, 128.0.0.0/2, \"::/0\"]}, failure: closed") + open, 200},
		{"closed for every path and a method", web, rule("a", ", match: {path: /, method: GET}, failure: closed") + open, 200},
		{"closed for every path with a header", web, rule("a", ", match: {path: /, header: {X-A: \"*\"}}, failure: closed") + open, 200},
		{"closed where there is an address, as always", web, rule("a", ", by: [ip, method], missing: skip, failure: closed") + open, 503},
		{"closed in shadow", web, rule("a", ", mode: shadow, failure: closed"), 200},
		{"closed, open in shadow", web, rule("a", below("/a")) + rule("b", ", mode: shadow"), 200},
		{"TCP alone, closed", fmt.Sprintf(tcp, "closed"), open, 503},
		{"TCP alone, local", fmt.Sprintf(tcp, "local"), closed, 200},
		{"TCP without limits beside HTTP", fmt.Sprintf(both, ""), closed, 200},
		{"TCP beside HTTP, both closed", fmt.Sprintf(both, ", open: 1, failure: closed"), closed, 503},
		{"TCP beside HTTP, which is open", fmt.Sprintf(both, ", open: 1, failure: closed"), open, 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.Start(t, fmt.Sprintf("store: {redis: {url: \"redis://127.0.0.1:1\"}}\n%srules:\n%s", c.listen, c.rules))
			got := servetest.Ready(t, s)
			if c.want == 503 && c.listen == web && s.Get(t, "/a/").Status != 503 {
				t.Error("not ready, and yet a request is let in")
			}
			meanwhile := "each rule applies its own failure policy"
			switch {
			case c.want == 503:
				meanwhile = "requests are refused"
			case c.name == "open":
				meanwhile = "requests are let through"
			case c.name == "local":
				meanwhile = "each node decides with its share of the limit"
			}
			if got.Status != c.want || !strings.Contains(got.Body, "store: down; "+meanwhile) {
				t.Errorf("got %d %q, want %d and %q", got.Status, got.Body, c.want, meanwhile)
			}
		})
	}
}

// TestStoreCause: the store's failure is in the log and in /readyz in its own words, until the
// store is back.
func TestStoreCause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, want     string
		breaks, mended [][]string
	}{
		{
			"no permission", "NOPERM",
			[][]string{{"ACL", "SETUSER", "default", "-@scripting"}},
			[][]string{{"ACL", "SETUSER", "default", "+@all"}},
		},
		{
			"no memory", "OOM",
			[][]string{{"CONFIG", "SET", "maxmemory", "1"}},
			[][]string{{"CONFIG", "SET", "maxmemory", "0"}},
		},
		{
			"a replica", "READONLY",
			[][]string{{"REPLICAOF", "127.0.0.1", "1"}},
			[][]string{{"REPLICAOF", "NO", "ONE"}},
		},
		{
			"a rotated password", "NOAUTH",
			[][]string{{"CONFIG", "SET", "requirepass", "one"}, {"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"}},
			[][]string{{"CONFIG", "SET", "requirepass", ""}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis(t))
			r := servetest.Start(t, fmt.Sprintf("store: {redis: {url: %q}}\nrules: [{name: a, by: query.userId, limits: 5/h sliding-log, in_flight: 3}]\n", server.URL()))
			r.Want(t, http.StatusOK, "/?userId=u")
			operator := server.Client(t)
			do := func(commands [][]string) {
				t.Helper()
				for _, command := range commands {
					redistest.Do(t, operator, command...)
				}
			}
			do(c.breaks)
			giveUp(t, r)
			// "the store failed" may contain it, too, for a call in progress.
			testkit.Until(t, "the log to say why the store is unavailable", func() bool {
				return slices.ContainsFunc(strings.Split(r.Logs.String(), "\n"), func(line string) bool {
					return strings.Contains(line, "the store is unavailable") && strings.Contains(line, c.want)
				})
			})
			testkit.Until(t, "/readyz to say "+c.want, func() bool { return strings.Contains(servetest.Ready(t, r).Body, c.want) })
			// There is a second line if the first cause was only a cut connection.
			if n := strings.Count(r.Logs.String(), "the store is unavailable"); n > 2 || strings.Contains(r.Logs.String(), "default") {
				t.Errorf("%d lines were logged:\n%s", n, r.Logs)
			}
			do(c.mended)
			testkit.Until(t, "the store to be back", func() bool { return strings.HasPrefix(servetest.Ready(t, r).Body, "ready\nstore: up\n") })
		})
	}
}

// TestSecretThatIsNone: an invalid secret in the store is logged, and keys are still counted.
func TestSecretThatIsNone(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	client := redis.Client(t)
	redistest.Do(t, client, "SET", "site{1}!secret", "mine")
	s := servetest.Start(t, fmt.Sprintf("store: {redis: {url: %q, prefix: site}}\n", redis.URL())+"rules: [{name: a, by: header.X-A, limits: 1000/min}]\n")
	if got := warning(t, s, "the store failed"); !strings.Contains(got, "site{1}!secret") || !strings.Contains(got, "delete it") || strings.Contains(got, "mine") {
		t.Errorf("got %q", got)
	}
}
