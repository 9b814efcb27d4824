// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
)

// Why the store is unavailable is reported in its own words, by the log and by /readyz, and
// no more when it is back.
func TestStoreCause(t *testing.T) {
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
			server := redistest.Start(t, redistest.Redis(t))
			r := start(t, fmt.Sprintf("store: {redis: {url: %q}}\nrules: [{name: a, by: query.userId, limits: 5/h sliding-log}]\n", server.URL()))
			if a := r.get(t, "/?userId=u"); a.status != http.StatusOK {
				t.Fatalf("status %d: %s", a.status, a.body)
			}
			operator := server.Client(t)
			do := func(commands [][]string) {
				t.Helper()
				for _, command := range commands {
					if err := operator.Do(t.Context(), operator.B().Arbitrary(command...).Build()).Error(); err != nil {
						t.Fatal(command, err)
					}
				}
			}
			do(c.breaks)
			r.giveUp(t)
			// "the store failed" may say it, too: of a call that was on its way.
			until(t, "the log to say why the store is unavailable", func() bool {
				return slices.ContainsFunc(strings.Split(r.logs.String(), "\n"), func(line string) bool {
					return strings.Contains(line, "the store is unavailable") && strings.Contains(line, c.want)
				})
			})
			until(t, "/readyz to say "+c.want, func() bool { return strings.Contains(ready(t, r).body, c.want) })
			// A second line if all that the first knew is that connections were cut.
			if n := strings.Count(r.logs.String(), "the store is unavailable"); n > 2 || strings.Contains(r.logs.String(), "default") {
				t.Errorf("%d lines were logged:\n%s", n, r.logs)
			}
			do(c.mended)
			until(t, "the store to be back", func() bool { return strings.HasPrefix(ready(t, r).body, "ready\nstore: up\n") })
		})
	}
}

// What is reported of an error is one line, not long, that names no user.
func TestCauseText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"NOPERM User ann has no permissions to run the 'evalsha' command", "NOPERM the user has no permissions to run the 'evalsha' command"},
		{"ERR a\r\nb\x1b[1m", "ERR a  b [1m"},
		{strings.Repeat("é", 200), strings.Repeat("é", 150) + "…"},
		{"x" + strings.Repeat("é", 200), "x" + strings.Repeat("é", 149) + "…"},
	} {
		if got := causeText(errors.New(c.text)); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
	if got := causeText(nil); got != "" {
		t.Errorf("none: got %q", got)
	}
}
