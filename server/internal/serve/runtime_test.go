// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestStarted: Started is called once, when the gateway serves, after the configuration is
// freed and before another one is read.
func TestStarted(t *testing.T) {
	t.Parallel()
	events := make(chan string, 3)
	const file = "rules: [{name: a, limits: 1/min}]\n"
	s := servetest.Start(t, file, func(o *serve.Options) {
		c := o.Config
		o.Started = func() { events <- fmt.Sprint("started with ", c.Policy) }
		o.Around = func(f func() error) error { events <- "around"; return f() }
	})
	before := s.Hash(t)
	s.Write(t, "# another\n"+file) // without a signal, which would have it read again
	testkit.Until(t, "the other file to be active", func() bool { return s.Hash(t) != before })
	s.End(t)
	for _, want := range []string{"started with <nil>", "around"} {
		if got := <-events; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if len(events) > 0 {
		t.Errorf("and then %q", <-events)
	}
}

// TestRoutes: upstreams are chosen by host and path, in their order.
func TestRoutes(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream:
  - {url: %q, host: api.example.com, path: /v1, max_body: 10}
  - {url: %q, path: /static/}
  - {url: %q, host: api.example.com}
rules: [{name: all, by: ip, limits: 1000/min}]
`, servetest.Named(t, "v1"), servetest.Named(t, "static"), servetest.Named(t, "rest")))
	for _, c := range []struct {
		name, host, method, path, body string
		status                         int
		want                           string
	}{
		{"by host and path", "api.example.com", "GET", "/v1/users", "", 200, "v1 /v1/users 0"},
		{"with a port and in capitals", "API.Example.com:8080", "GET", "/v1", "", 200, "v1 /v1 0"},
		{"not a whole segment", "api.example.com", "GET", "/v10", "", 200, "rest /v10 0"},
		{"by path", "other.example.com", "GET", "/static/a.css", "", 200, "static /static/a.css 0"},
		{"dot segments do not lead elsewhere", "other.example.com", "GET", "/static/../v1/users", "", 404, `"status":404`},
		{"no route", "other.example.com", "GET", "/v1/users", "", 404, "nothing is served here"},
		{"a body that fits", "api.example.com", "POST", "/v1/x", "0123456789", 200, "v1 /v1/x 10"},
		{"a body that is too large", "api.example.com", "POST", "/v1/x", "0123456789a", 413, `"status":413`},
		{"a body of any size elsewhere", "api.example.com", "POST", "/x", "0123456789a", 200, "rest /x 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := send(t, c.method, s.URL+c.path, c.host, c.body)
			if got.Status != c.status || !strings.Contains(got.Body, c.want) {
				t.Errorf("got %d %q, want %d %q", got.Status, got.Body, c.status, c.want)
			}
		})
	}
}

// send sends a request. A body is chunked, so its size is not known beforehand.
func send(t *testing.T, method, url, host, body string) servetest.Answer {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = io.MultiReader(strings.NewReader(body))
	}
	req := servetest.Request(t.Context(), t, method, url, from)
	if host != "" {
		req.Host = host
	}
	return servetest.Do(t, http.DefaultClient, req)
}

// TestAnswers: each verdict has its status, fields and document.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
fields: both
rules:
  - {name: api, match: {path: /api/}, by: header.X-User, limits: [2/min sliding-log, 100/h sliding-log]}
  - {name: soft, match: {path: /soft}, by: header.X-User, limits: {soft: 1/min sliding-log, grace: 1/day sliding-log}}
  - {name: one, match: {path: /one}, limits: 1/min sliding-log, status: 503}
`, servetest.Named(t, "up")), servetest.Stopped)
	ask := func(path string, header ...string) servetest.Answer { return s.Get(t, path, header...) }

	got := ask("/api/x", "X-User", "ada")
	if got.Status != 200 || got.Body != "up /api/x 0" {
		t.Fatalf("got %d %q", got.Status, got.Body)
	}
	wantField(t, got, "Ratelimit", `"api/sliding-log.min";r=1;t=60`)
	wantField(t, got, "Ratelimit-Policy", `"api/sliding-log.min";q=2;w=60, "api/sliding-log.hour";q=100;w=3600`)
	wantField(t, got, "X-Ratelimit-Limit", "2")
	wantField(t, got, "Ratelimit-Warning", "")
	if got = ask("/api/x", "X-User", "ada"); got.Status != 200 {
		t.Fatalf("got %d %q", got.Status, got.Body)
	}
	wantField(t, got, "Ratelimit-Warning", `"api/sliding-log.min";r=0;t=60;why="near"`)

	got = ask("/api/x", "X-User", "ada")
	if got.Status != 429 || !strings.Contains(got.Body, `"violated-policies":["api/sliding-log.min"]`) {
		t.Errorf("got %d %q, want 429 that names the limit", got.Status, got.Body)
	}
	wantField(t, got, "Retry-After", "60")
	wantField(t, got, "Content-Type", "application/problem+json")
	if got = ask("/api/x", "X-User", "bob"); got.Status != 200 {
		t.Errorf("another key: got %d", got.Status)
	}
	if got = ask("/api/x"); got.Status != 400 || !strings.Contains(got.Body, "X-User is missing") {
		t.Errorf("no key: got %d %q, want 400", got.Status, got.Body)
	}

	ask("/soft", "X-User", "ada")
	got = ask("/soft", "X-User", "ada")
	wantField(t, got, "Ratelimit-Warning", `"soft";r=0;t=86400;why="soft"`)
	if got.Status != 200 {
		t.Errorf("on grace: got %d, want 200", got.Status)
	}
	if got = ask("/soft", "X-User", "ada"); got.Status != 429 {
		t.Errorf("grace spent: got %d, want 429", got.Status)
	}

	ask("/one")
	if got = ask("/one"); got.Status != 503 {
		t.Errorf("a rule's own status: got %d, want 503", got.Status)
	}

	m := s.Metrics(t)
	for series, want := range map[string]float64{
		`sluice_rule_requests_total{rule="api",verdict="allowed"}`: 3,
		`sluice_rule_requests_total{rule="api",verdict="denied"}`:  1,
		`sluice_rule_requests_total{rule="api",verdict="refused"}`: 1,
		`sluice_rule_requests_total{rule="soft",verdict="warned"}`: 1,
		`sluice_requests_total{verdict="denied"}`:                  3,
		`sluice_config_current`:                                    1,
	} {
		if got := m[series]; got != want {
			t.Errorf("%s = %v, want %v", series, got, want)
		}
	}
}

func wantField(t *testing.T, a servetest.Answer, name, want string) {
	t.Helper()
	if got := strings.Join(a.Header.Values(name), ", "); got != want {
		t.Errorf("%s: got %q, want %q", name, got, want)
	}
}

// TestNetworks: deny precedes allow, and clients are checked before rules.
func TestNetworks(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
client_ip: {trusted: [127.0.0.1], header: X-Forwarded-For}
allow: [10.0.0.0/8, "2001:db8::/32"]
deny: 10.6.6.0/24
rules: [{name: all, by: ip, limits: 2/min sliding-log}]
`, servetest.Named(t, "up")), servetest.Stopped)
	for _, c := range []struct {
		client string
		want   int
	}{
		{"10.1.1.1", 200},
		{"10.6.6.6", 403},
		{"192.0.2.1", 403},
		{"2001:db8::1", 200},
		{"2001:db8::2", 200}, // of the same /64
		{"2001:db8::3", 429},
		{"::ffff:10.6.6.6", 403},
		{"", 403}, // 127.0.0.1 itself
	} {
		var header []string
		if c.client != "" {
			header = []string{"X-Forwarded-For", c.client}
		}
		s.Want(t, c.want, "/", header...)
	}
}

// TestSettles: a response's cost is charged when it is known.
func TestSettles(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			w.WriteHeader(http.StatusUnauthorized)
		case "/report":
			w.Header().Set("X-Cost", "9")
		case "/file":
			if _, err := io.WriteString(w, strings.Repeat("x", 700)); err != nil {
				t.Error(err)
			}
		}
	})
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: login, match: {path: /login}, limits: 2/min sliding-log, when: {response: 401}}
  - {name: report, match: {path: /report}, limits: 10/min sliding-log debt 10, cost: {response_header: X-Cost, most: 50}}
  - {name: file, match: {path: /file}, limits: 1000B/min sliding-log debt 1000B, cost: response-bytes}
`, up), servetest.Stopped)
	for _, c := range []struct {
		path string
		want []int
	}{
		{"/login", []int{401, 401, 429}},
		{"/report", []int{200, 200, 429}}, // 9, and the next is allowed, which makes 18
		{"/file", []int{200, 200, 429}},   // 700, and the next, which makes 1400
	} {
		s.WantAll(t, c.want, c.path)
	}
}

// TestOwnLimits: a client may ask for its own remaining units, and is charged only for asking.
func TestOwnLimits(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf(`
upstream: %q
rules:
  - {name: api, match: {method: POST, path: /api/}, by: header.X-User, limits: 5/min sliding-log}
  - {name: address, by: ip, limits: 100/min sliding-log}
  - {name: hidden, by: ip, limits: 7/min, mode: shadow}
  - {name: path, match: {path: "/u/{id}"}, by: path.id, limits: 7/min}
`, servetest.Named(t, "up")), servetest.Stopped)
	for range 2 {
		if got := send(t, http.MethodPost, s.URL+"/api/x", "", ""); got.Status != 400 {
			t.Fatalf("got %d", got.Status)
		}
	}
	req := func(user string) servetest.Answer { return s.Get(t, "/.well-known/ratelimit", "X-User", user) }
	post(t, s, "/api/x", "X-User", "ada")
	post(t, s, "/api/x", "X-User", "ada")
	for range 2 { // the second is as the first: looking is free
		got := req("ada")
		want := `{"limits":[{"name":"api","quota":5,"unit":"requests","window":60,"remaining":3,"reset_after":60,"retry_after":0},` +
			`{"name":"address","quota":100,"unit":"requests","window":60,"remaining":98,"reset_after":60,"retry_after":0}]}` + "\n"
		if got.Status != 200 || got.Body != want {
			t.Errorf("got %d %s, want %s", got.Status, got.Body, want)
		}
	}
	testkit.Contains(t, req("bob").Body, `"name":"api","quota":5,"unit":"requests","window":60,"remaining":5`)
	denied := 0
	for range 20 {
		if got := req("ada"); got.Status == http.StatusTooManyRequests {
			denied++
		}
	}
	if want := 20 - 7; denied != want { // ten at once, three of which were asked above
		t.Errorf("asking was denied %d times, want %d", denied, want)
	}
	if got := send(t, http.MethodPost, s.URL+"/.well-known/ratelimit", "", ""); got.Status != http.StatusMethodNotAllowed {
		t.Errorf("post: got %d, want 405", got.Status)
	}
}

func post(t *testing.T, r *servetest.Gateway, path string, header ...string) {
	t.Helper()
	if a := servetest.Do(t, http.DefaultClient, servetest.Request(t.Context(), t, http.MethodPost, r.URL+path, nil, header...)); a.Status != http.StatusOK {
		t.Errorf("got %d", a.Status)
	}
}
