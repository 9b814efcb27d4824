// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestListenersOwn: each listener has rules, clients and bounds of its own, which a reload
// changes; a rule has one budget at all of them.
func TestListenersOwn(t *testing.T) {
	t.Parallel()
	var at [4]string
	for i := range at {
		at[i] = testkit.FreeAddress(t)
	}
	file := func(second, third, fourth string) string {
		return fmt.Sprintf(`
listen:
  - %s
  - {address: %q, %s}
  - {address: %q, %s}
  - {address: %q, %s}
admin: 127.0.0.1:0
rules:
  - {name: few, limits: 2/min sliding-log}
  - {name: many, limits: 5/min sliding-log}
`, at[0], at[1], second, at[2], third, at[3], fourth)
	}
	s := servetest.Start(t, file("rules: [many]", "deny: 127.0.0.0/8", "max_connections: 1"), servetest.Stopped)
	want := func(i int, statuses ...int) {
		t.Helper()
		for n, status := range statuses {
			// Each connection is closed after its request.
			got := asked(t, "http://"+at[i], "GET /?userId=u HTTP/1.1\nHost: x\nConnection: close\n").Status
			if got != status {
				t.Errorf("request %d to listener %d: got %d, want %d", n+1, i+1, got, status)
			}
		}
	}
	want(0, 200, 200, 429)
	want(1, 200, 200, 200, 429) // with the two above, many has five
	want(2, 403)

	held := servetest.Dial(t, "http://"+at[3], "GET /?userId=u HTTP/1.1\nHost: x\n\n")
	testkit.Until(t, "the connection to have a place", func() bool {
		return s.Metrics(t)[fmt.Sprintf(`sluice_tcp_open_connections{listener=%q}`, at[3])] == 1
	})
	if resp, err := http.Get("http://" + at[3] + "/"); err == nil {
		_ = resp.Body.Close()
		t.Errorf("a second connection was served: %d", resp.StatusCode)
	}
	testkit.Closed(t, held)
	s.ExpectLog(t, "max_connections of the listener (1) is reached")

	s.ChangeTo(t, file("rules: [few]", "allow: 127.0.0.0/8", "rules: [few, many]"))
	want(1, 429)
	want(2, 429)
	if got := s.Get(t, "/"); !strings.Contains(got.Body, "few") {
		t.Errorf("got %s, want the denial of few", got.Body)
	}
}
