// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestWarningsAreLogged: lint's warnings are logged at the start and after a reload; a file
// without warnings logs none.
func TestWarningsAreLogged(t *testing.T) {
	t.Parallel()
	const star = "rules:\n  - {name: star, match: {path: /v1/*}, by: ip, limits: 5/min}\n"
	s := servetest.Start(t, star)
	const text = "the configuration is active and has a warning"
	s.ExpectLog(t, text)
	lines := func() (found []string) {
		for line := range strings.Lines(s.Logs.String()) {
			if strings.Contains(line, text) {
				found = append(found, line)
			}
		}
		return found
	}
	if got := lines(); len(got) != 1 || !strings.Contains(got[0], "level=WARN") || !strings.Contains(got[0], "sluice.yaml line=4 rule=star problem=") || !strings.Contains(got[0], "/v1/*") {
		t.Errorf("got %q", got)
	}
	s.Write(t, "rules:\n  - {name: clean, match: {path: /v1/}, by: ip, limits: 6/min}\n")
	s.ExpectLog(t, "a new configuration is active")
	if got := lines(); len(got) != 1 {
		t.Errorf("a clean file: got %q", got)
	}
	s.Write(t, "client_ip: {trusted: 0.0.0.0/0}\n"+star)
	testkit.Until(t, "the warnings of the third file", func() bool { return len(lines()) == 3 })
	if got := lines(); !strings.Contains(got[1], "line=3 problem=\"client_ip trusts 0.0.0.0/0") || !strings.Contains(got[2], "/v1/*") {
		t.Errorf("got %q", got)
	}
	s.Write(t, "rules:\n"+many("  - {name: NAME, match: {path: /NAME/*}, by: ip, limits: 5/min}\n", 40))
	s.ExpectLog(t, "the configuration has more warnings; see sluice lint")
	if got := lines(); len(got) != 23 {
		t.Errorf("%d lines, want 20 more than 3", len(got))
	}
}

// many returns n texts, with a different NAME in each.
func many(text string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(strings.ReplaceAll(text, "NAME", "r"+strings.Repeat("x", i)))
	}
	return b.String()
}

// TestHopsOfAGateway: behind one proxy the client is the last address in the field, whatever
// the client sent, and without the field the peer.
func TestHopsOfAGateway(t *testing.T) {
	t.Parallel()
	upstream := servetest.Named(t, "up")
	s := servetest.Start(t, "upstream: \""+upstream+"\"\nclient_ip: {hops: 1}\nrules: [{name: a, by: ip, limits: 1/h sliding-log}]\n")
	for _, c := range []struct {
		field string
		want  int
	}{
		{"192.0.2.1", http.StatusOK},
		{"198.51.100.1, 192.0.2.1", http.StatusTooManyRequests},
		{"198.51.100.2, 192.0.2.1", http.StatusTooManyRequests},
		{"192.0.2.1, 192.0.2.2", http.StatusOK},
		{"", http.StatusOK},
		{"192.0.2.3, unknown", http.StatusTooManyRequests}, // the peer's
	} {
		var fields []string
		if c.field != "" {
			fields = []string{"X-Forwarded-For", c.field}
		}
		servetest.Want(t, c.want, http.DefaultClient, s.URL, fields...)
	}
	if log := s.Logs.String(); strings.Contains(log, "is not trusted") {
		t.Errorf("logged of a proxy: %s", log)
	}
}
