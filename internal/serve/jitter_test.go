// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestRetryJitter: answers to clients that are denied together say different
// times, all fields of one answer the same, and none is too early.
func TestRetryJitter(t *testing.T) {
	s := start(t, fmt.Sprintf(`
upstream: %q
fields: both
rules:
  - {name: plain, match: {path: /plain}, limits: 1/day sliding-log}
  - {name: spread, match: {path: /spread}, limits: 1/day sliding-log, retry_jitter: 30s}
`, named(t, "up")), stopped)
	until := regexp.MustCompile(`;t=(\d+)$`)
	reported := func(path string) int {
		t.Helper()
		got := s.get(t, path)
		if got.status != 429 {
			t.Fatalf("%s: got %d", path, got.status)
		}
		wait, err := strconv.Atoi(got.header.Get("Retry-After"))
		m := until.FindStringSubmatch(got.header.Get("Ratelimit"))
		if err != nil || m == nil || m[1] != strconv.Itoa(wait) || got.header.Get("X-Ratelimit-Retry-After") != m[1] || got.header.Get("X-Ratelimit-Reset") != m[1] ||
			!strings.Contains(got.body, "retry after "+m[1]+" s") {
			t.Errorf("%s: the fields differ: %v %s", path, got.header, got.body)
		}
		return wait
	}
	s.get(t, "/plain")
	s.get(t, "/spread")
	const day = 24 * 60 * 60
	times := map[int]bool{}
	for range 50 {
		if got := reported("/plain"); got != day {
			t.Errorf("without jitter: reported %d s", got)
		}
		got := reported("/spread")
		if times[got] = true; got < day || got > day+30 {
			t.Errorf("with jitter: reported %d s", got)
		}
	}
	if len(times) < 10 {
		t.Errorf("50 clients got %d different times", len(times))
	}
}
