// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestAnswersInOwnWords: a file's own answers and fields reach clients of the gateway, on
// responses of the upstream and on denials, and change with the file.
func TestAnswersInOwnWords(t *testing.T) {
	t.Parallel()
	up := servetest.Named(t, "up")
	file := func(words string) string {
		return fmt.Sprintf(`
upstream: %q
fields: none
rules:
  - name: api
    match: {path: /api}
    limits: ["rate: 1/day sliding-log", "quota: 2/day sliding-log"]
    answer:
      content_type: application/json
      body: '{"message":"%s","limit":{limit},"wait":{retry_after}}'
      fields: {X-Call-Limit: "{used}/{limit}", X-Quota: "{quota.remaining}"}
      denied: {Retry-After: "{retry_after}.0"}
      limits: {rate: {status: 503, denied: {X-Code: THROTTLED}}}
  - {name: plain, match: {path: /plain}, limits: 1/day}
`, up, words)
	}
	s := servetest.Start(t, file("Too Many"), servetest.Stopped)
	check := func(path string, status int, body string, fields ...string) {
		t.Helper()
		got := s.Get(t, path)
		if got.Status != status || !strings.Contains(got.Body, body) {
			t.Errorf("%s: got %d %s, want %d %s", path, got.Status, got.Body, status, body)
		}
		for i := 0; i < len(fields); i += 2 {
			if value := got.Header.Get(fields[i]); value != fields[i+1] {
				t.Errorf("%s: %s is %q, want %q", path, fields[i], value, fields[i+1])
			}
		}
	}
	check("/api", 200, "up", "X-Call-Limit", "1/1", "X-Quota", "1", "Retry-After", "", "RateLimit", "")
	check("/api", 503, `{"message":"Too Many","limit":1,"wait":86400}`,
		"X-Call-Limit", "1/1", "X-Quota", "1", "Retry-After", "86400.0", "X-Code", "THROTTLED", "Content-Type", "application/json", "Cache-Control", "no-store")
	check("/plain", 200, "up", "X-Call-Limit", "")
	check("/plain", 429, `"violated-policies":["plain"]`, "X-Call-Limit", "", "X-Code", "", "Content-Type", "application/problem+json")

	s.ChangeTo(t, file("Wait"))
	check("/api", 503, `{"message":"Wait","limit":1`)

	// Braces sent by a client are not filled in.
	if got := s.Get(t, "/api?{limit}", "X-Call-Limit", "{limit}"); got.Header.Get("X-Call-Limit") != "1/1" || strings.Contains(got.Body, "{") && !strings.HasPrefix(got.Body, `{"message":"Wait"`) {
		t.Errorf("got %v %s", got.Header, got.Body)
	}
}
