// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestCheck: a check decides the request that a trusted proxy describes, and nobody else's
// description.
func TestCheck(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, `
listen:
  - {address: "127.0.0.1:0", serve: check}
  - {address: "127.0.0.2:0", serve: check, original: x-original, denied_status: 403}
  - {address: "127.0.0.3:0", serve: check, original: request}
client_ip: {trusted: 127.0.0.1}
fields: both
rules:
  - {name: get, match: {method: GET, path: /api/}, by: ip, limits: 2/h sliding-log}
  - {name: hosted, match: {host: api.example.com, path: /hosted}, limits: 2/h sliding-log}
  - {name: key, match: {path: /key}, by: query.key, missing: refuse, limits: 2/h sliding-log}
  - {name: own, match: {path: /own}, by: ip, limits: 1/h sliding-log, answer: {status: 503, body: '{"wait": {retry_after}}', content_type: application/json}}
`, servetest.Stopped)
	type fields []string
	forwarded := func(method, uri, client string) fields {
		return fields{"X-Forwarded-Method", method, "X-Forwarded-Uri", uri, "X-Forwarded-Host", "api.example.com", "X-Forwarded-For", client}
	}
	original := func(method, uri, client string) fields {
		return fields{"X-Original-Method", method, "X-Original-Uri", uri, "X-Original-Host", "api.example.com", "X-Forwarded-For", client}
	}
	for i, c := range []struct {
		at     int
		path   string
		fields fields
		status int
		body   string
	}{
		{0, "/", forwarded("GET", "/api/items?x=1", "192.0.2.1"), 200, ""},
		{0, "/other", forwarded("GET", "/api/items", "192.0.2.1"), 200, ""},
		{0, "/", forwarded("GET", "/api/items", "192.0.2.1"), 429, "quota of the limit"},
		{0, "/", forwarded("POST", "/api/items", "192.0.2.1"), 200, ""},              // another method
		{0, "/", forwarded("GET", "/%61pi/./items", "192.0.2.1"), 429, ""},           // the same path
		{0, "/", forwarded("GET", "/api/items", "192.0.2.2"), 200, ""},               // another client
		{0, "/api/", forwarded("GET", "/free", "192.0.2.1"), 200, ""},                // not its own path
		{0, "/", forwarded("GET", "/key", "192.0.2.1"), 400, "query key is missing"}, // no key
		{0, "/", forwarded("GET", "/key?key=a&key=b", "192.0.2.1"), 400, ""},         // two of them
		{0, "/", forwarded("GET", "/own", "192.0.2.1"), 200, ""},
		{0, "/", forwarded("GET", "/own", "192.0.2.1"), 503, `{"wait": 3600}`},
		{0, "/", forwarded("GET", "/hosted", "192.0.2.1"), 200, ""},
		{1, "/", original("GET", "/hosted", "192.0.2.1"), 200, ""},
		{0, "/", forwarded("GET", "http://API.example.com:80/hosted", "192.0.2.1"), 429, "hosted"},
		{0, "/", forwarded("GET", "no path", "192.0.2.1"), 400, "not valid"},
		{0, "/", forwarded("OPTIONS", "*", "192.0.2.1"), 200, ""},
		{0, "/", fields{"X-Forwarded-Uri", "/"}, 400, "X-Forwarded-Method or X-Forwarded-Uri is missing"},
		{0, "/", nil, 400, "is missing"},
		{0, "/", original("GET", "/api/items", "192.0.2.1"), 400, "is missing"},
		{1, "/", original("GET", "/api/items", "192.0.2.1"), 403, `"status":403`},
		{1, "/", original("GET", "/key", "192.0.2.1"), 400, ""},
		{1, "/", append(original("GET", "/api/items", "192.0.2.1"), "X-Forwarded-Uri", "/free"), 403, ""}, // not its field
		{1, "/", fields{"X-Original-Method", "GET", "X-Original-Url", "http://api.example.com/api/items", "X-Forwarded-For", "192.0.2.1"}, 403, ""},
		{2, "/api/items", fields{"X-Forwarded-For", "192.0.2.1"}, 429, ""},
		{2, "/api/items", fields{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Uri", "/free"}, 429, ""},
		{2, "/free", fields{"X-Forwarded-For", "192.0.2.1", "X-Forwarded-Uri", "/api/items"}, 200, ""},
	} {
		got := servetest.Fetch(t, http.DefaultClient, s.URLs[c.at]+c.path, c.fields...)
		if got.Status != c.status || !strings.Contains(got.Body, c.body) {
			t.Errorf("%d: got %d %q, want %d and %q", i, got.Status, got.Body, c.status, c.body)
		}
		if i == 0 && (got.Header.Get("X-Ratelimit-Remaining") != "1" || len(got.Header["Ratelimit"]) == 0) {
			t.Errorf("fields of a request that passes: %v", got.Header)
		}
		if got.Status == http.StatusTooManyRequests && got.Header.Get("Retry-After") == "" {
			t.Errorf("%d: a denial without Retry-After", i)
		}
	}
	m := s.Metrics(t)
	if m[`sluice_rule_requests_total{rule="get",verdict="denied"}`] != 7 || m[`sluice_http_responses_total{class="4xx",route="check"}`] == 0 {
		t.Errorf("metrics: %v denied of get", m[`sluice_rule_requests_total{rule="get",verdict="denied"}`])
	}
}

// TestCheckUntrusted: a peer that is not trusted is told so, once a second in the log.
func TestCheckUntrusted(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, "listen: {address: \"127.0.0.1:0\", serve: check}\nclient_ip: {trusted: 192.0.2.1}\nrules: [{name: a, limits: 1/h}]\n")
	got := s.Get(t, "/", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
	var problem struct{ Detail string }
	if err := json.Unmarshal([]byte(got.Body), &problem); err != nil || got.Status != http.StatusForbidden || !strings.Contains(problem.Detail, "127.0.0.1 is not a trusted proxy") {
		t.Errorf("got %d %s, %v", got.Status, got.Body, err)
	}
	s.ExpectLog(t, "is not a trusted proxy")
	if n := s.Metrics(t)[`sluice_check_refused_total{reason="peer"}`]; n != 1 {
		t.Errorf("%v refusals were counted, want 1", n)
	}
}

// TestCheckCertificate: the certificate of a proxy is not its clients'.
func TestCheckCertificate(t *testing.T) {
	t.Parallel()
	cert, key, trust := testkit.CertificateFiles(t)
	ours := testkit.NewAuthority(t, "proxies")
	s := servetest.Start(t, fmt.Sprintf(`
listen:
  - {address: "127.0.0.1:0", serve: check, tls: {cert: %q, key: %q, client_ca: %q}}
client_ip: {trusted: 127.0.0.1}
rules: [{name: services, by: cert.uri, missing: refuse, limits: 2/h}]
`, cert, key, fileOf(t, ours)))
	proxy := certified(t, ours, "spiffe://example/proxy", trust)
	got := servetest.Fetch(t, proxy, s.URL, "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/")
	if got.Status != http.StatusBadRequest {
		t.Errorf("got %d %s, want 400: the client has shown no certificate", got.Status, got.Body)
	}
}

// TestOneBudget: a rule has one budget at all fronts, on both stores.
func TestOneBudget(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t, redistest.Redis(t))
	for name, store := range map[string]string{"memory": "memory", "redis": fmt.Sprintf("{redis: {url: %q}}", redis.URL())} {
		t.Run(name, func(t *testing.T) {
			s := servetest.Start(t, fmt.Sprintf(`
listen:
  - 127.0.0.1:0
  - {address: "127.0.0.2:0", serve: check}
  - {address: "127.0.0.3:0", serve: api}
  - {address: "127.0.0.4:0", serve: resp}
client_ip: {trusted: 127.0.0.1}
store: %s
upstream: %s
rules: [{name: all, by: header.X-User, limits: 6/h sliding-log}]
`, store, servetest.Named(t, "app")))
			client := servetest.Dial(t, s.URLs[3], "")
			asks := []func() int{
				func() int { return servetest.Fetch(t, http.DefaultClient, s.URLs[0]+"/x", "X-User", "ada").Status },
				func() int {
					return servetest.Fetch(t, http.DefaultClient, s.URLs[1], "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/x", "X-User", "ada").Status
				},
				func() int {
					a := apiClient{url: s.URLs[2]}.call(t, "/v1/take", `{"rule": "all", "headers": {"X-User": ["ada"]}}`)
					return map[bool]int{true: http.StatusOK, false: http.StatusTooManyRequests}[a.Allowed]
				},
				func() int {
					_, err := fmt.Fprint(client, "SLUICE.TAKE all ada\r\n")
					answer := make([]byte, 256)
					if n, rerr := client.Read(answer); err != nil || rerr != nil || n < 6 || string(answer[:5]) != "*8\r\n:" {
						t.Fatalf("%q, %v, %v", answer[:n], err, rerr)
					}
					if answer[5] == '1' {
						return http.StatusOK
					}
					return http.StatusTooManyRequests
				},
			}
			for i := range 6 {
				if got := asks[i%len(asks)](); got != http.StatusOK {
					t.Errorf("request %d: got %d", i, got)
				}
			}
			for i, ask := range asks {
				if got := ask(); got != http.StatusTooManyRequests {
					t.Errorf("front %d has a budget of its own: got %d", i, got)
				}
			}
			testkit.Until(t, "all requests to be counted", func() bool {
				m := s.Metrics(t)
				return m[`sluice_rule_requests_total{rule="all",verdict="allowed"}`] == 6 && m[`sluice_rule_requests_total{rule="all",verdict="denied"}`] == float64(len(asks))
			})
		})
	}
}
