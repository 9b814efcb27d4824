// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/audit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/overview"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const keyRules = `
rules:
  - {name: api, by: [header.X-User, ip], limits: [3/min sliding-log, 100/h sliding-log], candidates: {tight: 1/min sliding-log}}
  - {name: address, by: ip, limits: 50/min sliding-log}
  - {name: trial, by: ip, limits: 2/min sliding-log, mode: shadow}
`

// TestKeyCommands: the state of a key is shown with its arithmetic, and can be reset or
// overridden for a while. The log has every change.
func TestKeyCommands(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	auditFile, overrides := filepath.Join(dir, "audit.jsonl"), filepath.Join(dir, "overrides.json")
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+keyRules, servetest.Stopped, func(o *serve.Options) {
		o.Audit, o.Overrides = auditFile, overrides
	})
	at := "--admin=" + s.Admin
	ask := func(want ...int) {
		t.Helper()
		s.WantAll(t, want, "/", "X-User", "ada")
	}
	show := func(want ...string) {
		t.Helper()
		out, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "header.x-user=ada", at)
		testkit.Contains(t, out, want...)
	}
	show("api: header.X-User=ada ip=127.0.0.1", "all 3 left", "address: ip=127.0.0.1", "in shadow")
	ask(200, 200, 200, 429)
	show("0 of 3 left, 3 used", "1 more fits in 1m0s", "97 of 100 left")

	out, _ := command(t, cli.OK, "status", at)
	testkit.Contains(t, out, s.File, "candidate: tight", "3 of 4", "2 of 4", "once  header.X-User=ada ip=127.0.0.1")

	command(t, cli.OK, "key", "override", "header.X-User=ada", "ip=127.0.0.1", "--rule", "api", "--limit", "5/min sliding-log",
		"--for=1h", "--reason", "launch", "--author=eve", at)
	ask(200, 200, 429)
	show("override: launch (eve), until 2")
	if out, _ = command(t, cli.OK, "status", at); !strings.Contains(out, "override of api for header.X-User=ada ip=127.0.0.1: 5/min sliding-log") {
		t.Errorf("status lacks the override:\n%s", out)
	}
	if kept, err := os.ReadFile(overrides); err != nil || !strings.Contains(string(kept), `"launch"`) {
		t.Errorf("kept %q, %v", kept, err)
	}
	command(t, cli.OK, "key", "override", "header.X-User=ada", "ip=127.0.0.1", "--rule=api", "--remove", "--author=eve", at)
	ask(429)
	command(t, cli.OK, "key", "reset", "header.X-User=ada", "ip=127.0.0.1", "--rule=api", "--reason=asked for it", "--author=eve", at)
	ask(200)

	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no such rule", []string{"key", "show", "ip=127.0.0.1", "--rule=nope"}, `there is no rule "nope"`},
		{"no such part", []string{"key", "show", "cookie.x=1"}, "use header.X-User=… ip=…, or ip=…"},
		{"a word that is no part", []string{"key", "show", "user=1"}, "unknown key part \"user\"; use"},
		{"an address that is none", []string{"key", "show", "ip=home"}, `rule "address": ip: "home" is not an address`},
		{"a network of addresses", []string{"key", "show", "ip=127.0.0.0/8", "--rule=address"}, "use one such as 127.0.0.0"},
		{"an override without a rule", []string{"key", "override", "ip=127.0.0.1", "--limit=1/s", "--reason=x"}, "set the name of a rule"},
		{"an override without a reason", []string{"key", "override", "ip=127.0.0.1", "--rule=address", "--limit=1/s"}, "reason is missing"},
		{"a limit that cannot be read", []string{"key", "override", "ip=127.0.0.1", "--rule=address", "--limit=many", "--reason=x"}, `limit "many"`},
		{"a limit that does not fit its rule", []string{"key", "override", "ip=127.0.0.1", "--rule=address", "--limit=1MB/s", "--reason=x"}, "bytes"},
		{"an end of what is not", []string{"key", "override", "ip=127.0.0.1", "--rule=address", "--remove"}, "there is none for this key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			failsWith(t, cli.Failed, c.want, append(c.args, at)...)
		})
	}
	s.End(t)
	var actions []string
	data := testkit.ReadFile(t, auditFile)
	for line := range strings.Lines(string(data)) {
		var e audit.Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Time.IsZero() || e.Remote == "" || e.Author == "" {
			t.Errorf("incomplete: %s", line)
		}
		if e.Error != "" {
			e.Action += " failed"
		}
		actions = append(actions, e.Action)
	}
	want := "override, end-override, reset, override, override failed, end-override, end-override failed"
	if got := strings.Join(actions, ", "); got != want {
		t.Errorf("audited %s, want %s", got, want)
	}
}

// TestSharedBudget: an empty value shows, resets and overrides the budget of requests
// without a part of the key.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+`
rules:
  - {name: shared, by: [header.X-User, ip], missing: share, limits: 2/min sliding-log}
  - {name: refused, by: header.X-Team, limits: 50/min sliding-log}
`, servetest.Stopped)
	key := []string{"header.X-User=", "ip=127.0.0.1", "--admin=" + s.Admin}
	ask := func(want ...int) {
		t.Helper()
		s.WantAll(t, want, "/", "X-Team", "a")
	}
	ask(200, 200, 429)
	if out, _ := command(t, cli.OK, append([]string{"key", "show"}, key...)...); !strings.Contains(out, "shared: header.X-User= ip=127.0.0.1\n") || !strings.Contains(out, "0 of 2 left") {
		t.Errorf("got %s", out)
	}
	command(t, cli.OK, append([]string{"key", "reset"}, key...)...)
	ask(200, 200, 429)
	command(t, cli.OK, append([]string{"key", "override", "--rule=shared", "--limit=3/min sliding-log", "--reason=x"}, key...)...)
	ask(200)
	command(t, cli.OK, append([]string{"key", "override", "--rule=shared", "--remove"}, key...)...)
	ask(429)
	_, stderr := command(t, cli.Failed, "key", "show", "header.X-Team=", "--admin="+s.Admin)
	testkit.Contains(t, stderr, "an empty value of header.X-Team; no request has one")
	_, stderr = command(t, cli.Usage, "key", "show", "ip")
	testkit.Contains(t, stderr, "expected a part with its value, such as")
}

// TestOverridesLast: overrides in a file outlive the program, and end.
func TestOverridesLast(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "overrides.json")
	entry := func(expires time.Time) {
		doc := fmt.Sprintf(`{"version":1,"overrides":[{"rule":"address","key":["127.0.0.1"],"limits":["1/min sliding-log"],"expires":%q,"reason":"x","author":"y","added":"2026-01-01T00:00:00Z"}]}`,
			expires.Format(time.RFC3339))
		testkit.WriteFile(t, file, doc)
	}
	for _, c := range []struct {
		name    string
		expires time.Time
		want    int
	}{
		{"active", servetest.FixedClock().Add(time.Second), 429},
		{"over", servetest.FixedClock(), 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			entry(c.expires)
			s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+keyRules, servetest.Stopped, func(o *serve.Options) { o.Overrides = file })
			s.Get(t, "/", "X-User", "ada")
			s.Want(t, c.want, "/", "X-User", "ada")
		})
	}
}

// TestAdminToken: with a token, callers without it see no key and change
// nothing.
func TestAdminToken(t *testing.T) {
	t.Parallel()
	tokens := testkit.TempFile(t, "token", "0123456789abcdef0123456789abcdef\n")
	s := servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, token_file: %q}\nupstream: %q\n", tokens, servetest.Named(t, "up"))+keyRules, servetest.Stopped)
	for range 4 {
		s.Get(t, "/", "X-User", "ada")
	}
	top := func(header ...string) overview.Top {
		return servetest.Document[overview.Top](t, s, "/v1/top", header...)
	}
	hidden := top()
	if !hidden.Hidden || len(hidden.Levels) != 1 || hidden.Levels[0].Keys[0].Hash == "" || hidden.Levels[0].Keys[0].Parts != nil {
		t.Errorf("without the token: %+v", hidden)
	}
	if shown := top("Authorization", "Bearer 0123456789abcdef0123456789abcdef"); shown.Hidden || shown.Levels[0].Keys[0].Parts["header.X-User"] != "ada" {
		t.Errorf("with the token: %+v", shown)
	}
	at := "--admin=" + s.Admin
	for _, args := range [][]string{{"status", at}, {"key", "show", "ip=127.0.0.1", at}, {"key", "reset", "ip=127.0.0.1", at}} {
		failsWith(t, cli.Failed, "this needs the token", args...)
		command(t, cli.OK, append(args, "--token-file", tokens)...)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/policy": 401, "/v1/key?ip=127.0.0.1": 401} {
		servetest.Want(t, want, http.DefaultClient, s.Admin+path)
	}
}

// TestKeyShowsInFlight: the number of running requests of a key is shown, and a reset does
// not change it.
func TestKeyShowsInFlight(t *testing.T) {
	t.Parallel()
	came, goOn := make(chan struct{}), make(chan struct{})
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-goOn
	})
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: run, by: ip, in_flight: 3}, {name: both, by: ip, limits: 9/min sliding-log, in_flight: {cap: 2, ttl: 1m}}]\n", up), servetest.Stopped)
	show := func(want ...string) {
		t.Helper()
		out, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "--admin="+s.Admin)
		testkit.Contains(t, out, want...)
	}
	show("0 of 3 used: 3 free", "0 of 2 used: 2 free")
	done := make(chan int, 1)
	go func() { done <- s.Get(t, "/").Status }()
	<-came
	show("1 of 3 used: 2 free", "1 of 2 used: 1 free", "8 of 9 left")
	command(t, cli.OK, "key", "reset", "ip=127.0.0.1", "--author=eve", "--admin="+s.Admin)
	show("1 of 3 used", "1 of 2 used", "all 9 left")
	close(goOn)
	if got := <-done; got != http.StatusOK {
		t.Errorf("got %d", got)
	}
	testkit.Until(t, "the end of both, a moment after the answer", func() bool {
		out, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "--admin="+s.Admin)
		return strings.Contains(out, "0 of 3 used") && strings.Contains(out, "0 of 2 used")
	})
}

// TestPublicAdminHasNoKeys: an address open to everybody shows no keys and changes none.
func TestPublicAdminHasNoKeys(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, "admin: {address: \"0.0.0.0:0\", public: true}\nrules: [{name: all, by: ip, limits: 2/min}]")
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/metrics": http.StatusOK, "/policy": http.StatusNotFound, "/v1/key?ip=127.0.0.1": http.StatusNotFound} {
		servetest.Want(t, want, http.DefaultClient, s.Admin+path)
	}
}
