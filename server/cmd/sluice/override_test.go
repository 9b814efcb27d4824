// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestOverrideKeepsTheAlgorithm: an override inherits the options that it does not name from
// the rule, so that a key keeps its spent units. Options that cannot be inherited are
// reported.
func TestOverrideKeepsTheAlgorithm(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+`
rules:
  - {name: log, match: {path: /log}, by: ip, limits: 3/min sliding-log}
  - {name: parts, match: {path: /parts}, by: ip, limits: 60/min sliding-counter sub-windows 6 strict}
  - {name: mixed, match: {path: /mixed}, by: ip, limits: [3/min sliding-log, 1000/day calendar Asia/Seoul]}
  - {name: dear, match: {path: /dear}, by: ip, limits: 100/min, cost: 10}
`, servetest.Stopped)
	override := func(want int, rule, limit string) (stdout, stderr string) {
		t.Helper()
		return command(t, want, "key", "override", "ip=127.0.0.1", "--rule", rule, "--limit", limit, "--reason=x", "--admin="+s.Admin)
	}
	for range 3 {
		s.Want(t, http.StatusOK, "/log")
	}
	for _, c := range []struct{ name, rule, limit, want string }{
		{"more", "log", "10/min", "10/min sliding-log\n    7 of 10 left, 3 used"},
		{"another that it names", "log", "10/min token-bucket", "token-bucket.min: 10/min burst 10\n    all 10 left"},
		{"sub-windows and strict", "parts", "120/min", "120/min sliding-counter sub-windows 6 strict\n"},
		{"conservative for strict", "parts", "120/min conservative", "120/min sliding-counter sub-windows 6 conservative\n"},
		{"of the same window", "mixed", "10/min", "10/min sliding-log\n"},
		{"of the same calendar", "mixed", "2000/day", "2000/day fixed-window calendar Asia/Seoul\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out, _ := override(cli.OK, c.rule, c.limit); !strings.Contains(out, c.want) {
				t.Errorf("override: got\n%s\nwant %q", out, c.want)
			}
			out, _ := command(t, cli.OK, "key", "show", "ip=127.0.0.1", "--rule", c.rule, "--admin="+s.Admin)
			testkit.Contains(t, out, c.want)
		})
	}
	for _, c := range []struct{ name, rule, limit, want string }{
		{"a word of another algorithm", "log", "10/min burst 20", `column 8: burst belongs to token-bucket and leaky-bucket, and the limit in whose place this one stands is counted by sliding-log; leave it out, or write token-bucket`},
		{"which of two", "mixed", "100/h", `replaces limits counted by fixed-window and sliding-log; name the algorithm of this one`},
		{"less than a request costs", "dear", "5/min", "5/min never admits a request: each request costs 10 units, and never more than 5 fit; use a burst of 10 or more, or a cost of at most 5"},
		{"too much for a log", "log", "1000000/min", "sliding-histogram"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, stderr := override(cli.Failed, c.rule, c.limit); !strings.Contains(stderr, c.want) {
				t.Errorf("got %q, want %q", stderr, c.want)
			}
		})
	}
}
