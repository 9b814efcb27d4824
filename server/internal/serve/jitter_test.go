// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestRetryJitter: clients denied together get different times, all fields of one answer
// agree, and no time is too early.
func TestRetryJitter(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
fields: both
rules:
  - {name: plain, match: {path: /plain}, limits: 1/day sliding-log}
  - {name: spread, match: {path: /spread}, limits: 1/day sliding-log, retry_jitter: 30s}
`, servetest.Named(t, "up")), servetest.Stopped)
	until := regexp.MustCompile(`;t=(\d+)$`)
	reported := func(path string) int {
		t.Helper()
		got := s.Get(t, path)
		if got.Status != 429 {
			t.Fatalf("%s: got %d", path, got.Status)
		}
		wait, err := strconv.Atoi(got.Header.Get("Retry-After"))
		m := until.FindStringSubmatch(got.Header.Get("Ratelimit"))
		if err != nil || m == nil || m[1] != strconv.Itoa(wait) || got.Header.Get("X-Ratelimit-Retry-After") != m[1] || got.Header.Get("X-Ratelimit-Reset") != m[1] ||
			!strings.Contains(got.Body, "retry after "+m[1]+" s") {
			t.Errorf("%s: the fields differ: %v %s", path, got.Header, got.Body)
		}
		return wait
	}
	s.Get(t, "/plain")
	s.Get(t, "/spread")
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
