// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/decided"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

const lastRules = `
rules:
  - {name: user, by: header.X-User, limits: 3/min sliding-log, candidates: {tight: 1/min sliding-log}}
  - {name: pair, by: [header.X-User, header.X-App], missing: skip, limits: 50/min}
  - {name: dry, by: header.X-User, limits: 1/min sliding-log, mode: shadow}
`

// lastOf returns the last decisions in /v1/key.
func lastOf(t *testing.T, s *servetest.Gateway, query string) decided.List {
	t.Helper()
	states := servetest.Document[admin.KeyStates](t, s, "/v1/key?"+query)
	if states.Last == nil {
		t.Fatalf("got %+v", states)
	}
	return *states.Last
}

// TestKeyShowsLastDecisions: if the decision log is a file, its decisions about a key are
// shown, newest first, with keys in clear or hashed, also after a rotation and with invalid
// lines.
func TestKeyShowsLastDecisions(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"hashed", "plain"} {
		t.Run(keys, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "decisions.jsonl")
			s := servetest.Start(t, fmt.Sprintf("upstream: %q\ndecision_log: {file: %q, keys: %s}\n", servetest.Named(t, "up"), file, keys)+lastRules, servetest.Stopped)
			const user = `a"d|a%`
			for i, status := range []int{200, 200, 200, 429} {
				s.Want(t, status, fmt.Sprintf("/%d?secret", i), "X-User", user, "X-App", "p|q")
			}
			s.Get(t, "/of-eve", "X-User", "eve")
			ask := "header.X-User=a%22d%7Ca%25"
			testkit.Until(t, "the lines", func() bool { return len(lastOf(t, s, "header.X-User=eve&rule=user").Decisions) == 1 })

			var got []string
			for _, d := range lastOf(t, s, ask).Decisions {
				left := int64(-1)
				if d.Remaining != nil {
					left = *d.Remaining
				}
				got = append(got, fmt.Sprintf("%s %s %s %d %s %s %d", d.Path, d.Verdict, d.Rule, d.Status, d.LimitVerdict, d.Mode, left))
			}
			want := "/3 denied user 429 denied enforced 0, /2 allowed user 200 allowed enforced 0, /1 allowed user 200 allowed enforced 1, /0 allowed user 200 allowed enforced 2"
			if strings.Join(got, ", ") != want {
				t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
			}
			if l := lastOf(t, s, ask+"&rule=dry"); len(l.Decisions) != 4 || l.Decisions[0].Mode != "shadow" || l.Decisions[0].LimitVerdict != "denied" {
				t.Errorf("of a rule in shadow: %+v", l)
			}
			if l := lastOf(t, s, ask+"&header.X-App=p%7Cq&rule=pair"); len(l.Decisions) != 4 || l.Decisions[0].Verdict != "denied" || l.Decisions[0].LimitVerdict != "allowed" {
				t.Errorf("of two parts: %+v", l)
			}
			if l := lastOf(t, s, "header.X-User=nobody&rule=user"); len(l.Decisions) != 0 || l.Unreadable != 0 || strings.Contains(l.Note, "secret_file") != (keys == "hashed") {
				t.Errorf("of a stranger: %+v", l)
			}
			out, _ := command(t, cli.OK, "key", "show", "header.X-User="+user, "--rule=user", "--admin="+s.Admin)
			_, list, _ := strings.Cut(out, "last decisions\n")
			if first, _, _ := strings.Cut(list, "\n"); !strings.HasSuffix(first, "Z  denied 429  GET /3  user: sliding-log.min: 3/min sliding-log, 0 left") || strings.Count(list, " GET /") != 4 {
				t.Errorf("got\n%s", out)
			}

			if err := os.Truncate(file, 0); err != nil {
				t.Fatal(err)
			}
			testkit.WriteFile(t, file, "no line\n")
			s.Get(t, "/anew", "X-User", user)
			testkit.Until(t, "the line behind a truncation", func() bool { return len(lastOf(t, s, ask).Decisions) == 1 })
			if l := lastOf(t, s, ask); l.Decisions[0].Path != "/anew" || l.Unreadable != 1 {
				t.Errorf("got %+v", l)
			}
			if err := os.Rename(file, file+".1"); err != nil {
				t.Fatal(err)
			}
			if l := lastOf(t, s, ask); len(l.Decisions) != 0 || !strings.HasPrefix(l.Note, "the decision log cannot be read back: ") {
				t.Errorf("of a file that was moved away: %+v", l)
			}
		})
	}
}

// TestKeyLastDecisionsNotKept: without decisions, the output says so and why.
func TestKeyLastDecisionsNotKept(t *testing.T) {
	t.Parallel()
	for log, want := range map[string]string{
		"":                          "decisions are not kept: there is no decision_log",
		"decision_log: /dev/null\n": "the decision log cannot be read back: ",
		fmt.Sprintf("decision_log: {file: %q, requests: denied}\n", t.TempDir()+"/l"): "only requests that were denied",
	} {
		s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+log+lastRules, servetest.Stopped)
		s.Get(t, "/", "X-User", "ada")
		if l := lastOf(t, s, "header.X-User=ada"); len(l.Decisions) != 0 || !strings.HasPrefix(l.Note, want) {
			t.Errorf("%s: got %+v", log, l)
		}
		if out, _ := command(t, cli.OK, "key", "show", "header.X-User=ada", "--admin="+s.Admin); !strings.Contains(out, "last decisions\n  "+want) {
			t.Errorf("%s: got\n%s", log, out)
		}
	}
}
