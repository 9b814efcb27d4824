// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// TestAnswersInOwnWords: what a file says in words of its own reaches clients of the
// gateway, on responses of the upstream and on denials, and changes with the file.
func TestAnswersInOwnWords(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "up"); err != nil {
			t.Error(err)
		}
	}))
	closeAtEnd(t, closer(up.Close))
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
`, up.URL, words)
	}
	s := start(t, file("Too Many"), stopped)
	check := func(path string, status int, body string, fields ...string) {
		t.Helper()
		got := s.get(t, path)
		if got.status != status || !strings.Contains(got.body, body) {
			t.Errorf("%s: got %d %s, want %d %s", path, got.status, got.body, status, body)
		}
		for i := 0; i < len(fields); i += 2 {
			if value := got.header.Get(fields[i]); value != fields[i+1] {
				t.Errorf("%s: %s is %q, want %q", path, fields[i], value, fields[i+1])
			}
		}
	}
	check("/api", 200, "up", "X-Call-Limit", "1/1", "X-Quota", "1", "Retry-After", "", "RateLimit", "")
	check("/api", 503, `{"message":"Too Many","limit":1,"wait":86400}`,
		"X-Call-Limit", "1/1", "X-Quota", "1", "Retry-After", "86400.0", "X-Code", "THROTTLED", "Content-Type", "application/json", "Cache-Control", "no-store")
	check("/plain", 200, "up", "X-Call-Limit", "")
	check("/plain", 429, `"violated-policies":["plain"]`, "X-Call-Limit", "", "X-Code", "", "Content-Type", "application/problem+json")

	before := s.hash(t)
	s.change(t, file("Wait"), "version ")
	until(t, "the other words to be active", func() bool { return s.hash(t) != before })
	check("/api", 503, `{"message":"Wait","limit":1`)

	// A client that sends braces finds none of them filled in.
	if got := s.get(t, "/api?{limit}", "X-Call-Limit", "{limit}"); got.header.Get("X-Call-Limit") != "1/1" || strings.Contains(got.body, "{") && !strings.HasPrefix(got.body, `{"message":"Wait"`) {
		t.Errorf("got %v %s", got.header, got.body)
	}
}

// TestAnswerFieldsStandOnce: an upstream that has a field of its own by the name of
// a rule's does not have clients read two, whatever the case and the kind of response.
func TestAnswerFieldsStandOnce(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["X-Call-Limit"] = []string{"7/9", "8/9"}
		w.Header().Set("X-Left", "of the upstream")
		w.Header().Set("X-Code", "FINE")
		if r.URL.Path == "/early" {
			w.WriteHeader(http.StatusEarlyHints)
		}
		w.WriteHeader(http.StatusNotFound)
	})
	s := start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: all, limits: 3/day, answer: {fields: {x-left: "{remaining}"}}}
  - name: api
    limits: 2/day
    answer: {fields: {X-Call-Limit: "{used}/{limit}"}, denied: {x-code: THROTTLED}}
`, up), stopped)
	for i, want := range []struct {
		path              string
		status            int
		calls, left, code string
	}{
		{"/", 404, "1/2", "2", "FINE"},
		{"/early", 404, "2/2", "1", "FINE"},
		{"/", 429, "2/2", "1", "THROTTLED"},
	} {
		got := s.get(t, want.path)
		for name, value := range map[string]string{"X-Call-Limit": want.calls, "X-Left": want.left, "X-Code": want.code} {
			if values := got.header[name]; got.status != want.status || !slices.Equal(values, []string{value}) {
				t.Errorf("request %d: %d, %s: %q, want %d, %q alone", i+1, got.status, name, values, want.status, value)
			}
		}
	}
}

// TestXRateLimitStandsOnce: so do the fields of x-ratelimit, which are no lists: an
// upstream that limits, too, says nothing beside.
func TestXRateLimitStandsOnce(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"} {
			w.Header().Set(name, "of the upstream")
		}
	})
	s := start(t, fmt.Sprintf("upstream: %q\nfields: x-ratelimit\nrules: [{name: a, match: {path: /limited}, limits: 5/min fixed-window}]\n", up), stopped)
	for path, want := range map[string]string{"/limited": "4", "/": "of the upstream"} {
		if got := s.get(t, path).header["X-Ratelimit-Remaining"]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q, want %q alone", path, got, want)
		}
	}
}

// closer makes a function without an error one that closes.
type closer func()

func (c closer) Close() error {
	c()
	return nil
}
