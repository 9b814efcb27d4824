// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func decode(t *testing.T, a answer) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return doc
}

func TestSampleApp(t *testing.T) {
	r := startAt(t, fixedClock, "--limit", "2/min sliding-log")
	for _, c := range []struct {
		path   string
		status int
		word   string
		user   any
	}{
		{"/?userId=u1", http.StatusOK, "ok", "u1"},
		{"/?userId=u1", http.StatusOK, "ok", "u1"},
		{"/?userId=u1", http.StatusTooManyRequests, "rate_limited", "u1"},
		{"/?userId=u2", http.StatusOK, "ok", "u2"},
		{"/", http.StatusBadRequest, "error", nil},
		{"/?userId=", http.StatusBadRequest, "error", nil},
		{"/?userId=u3&userId=u4", http.StatusBadRequest, "error", "u3"},
		{"/other?userId=u5", http.StatusNotFound, "error", "u5"},
		{"/?userId=%22%3Cscript%3E%00", http.StatusOK, "ok", "\"<script>\x00"},
	} {
		a := r.get(t, c.path)
		doc := decode(t, a)
		if a.status != c.status || doc["status"] != c.word || doc["userId"] != c.user {
			t.Errorf("%s: %d %s, want %d %s of %v", c.path, a.status, a.body, c.status, c.word, c.user)
		}
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("%s: content type %q", c.path, got)
		}
		if doc["message"] == "" || doc["processName"] == "" {
			t.Errorf("%s: %s", c.path, a.body)
		}
	}
}

func TestHeaderFields(t *testing.T) {
	r := startAt(t, fixedClock, "--limit", "2/min sliding-log")
	r.get(t, "/?userId=u1")
	allowed, denied := r.get(t, "/?userId=u1"), r.get(t, "/?userId=u1")
	for _, c := range []struct {
		name string
		got  answer
		want map[string]string
	}{
		{"allowed", allowed, map[string]string{
			"Ratelimit": `"sliding-log.min";r=0;t=60`, "Ratelimit-Policy": `"sliding-log.min";q=2;w=60`, "Retry-After": "",
			"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "60", "X-Ratelimit-Retry-After": "",
		}},
		{"denied", denied, map[string]string{
			"Ratelimit": `"sliding-log.min";r=0;t=60`, "Ratelimit-Policy": `"sliding-log.min";q=2;w=60`, "Retry-After": "60",
			"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "60", "X-Ratelimit-Retry-After": "60",
		}},
	} {
		for name, want := range c.want {
			if got := strings.Join(c.got.header.Values(name), "|"); got != want {
				t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
			}
		}
	}
}

// TestUpstream: in front of a real app the answers are problem documents, a
// key is several parts, and several limits are all or none.
func TestUpstream(t *testing.T) {
	seen := 0
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		seen++
		w.WriteHeader(http.StatusTeapot)
	})
	r := startAt(t, fixedClock, "--upstream", up, "--limit", "3/min sliding-log", "--limit", "2/s fixed-window",
		"--by", "path.1", "--by", "header.X-User")
	for i, c := range []struct {
		path, user string
		want       int
		violated   string
	}{
		{"/a/x", "u", http.StatusTeapot, ""},
		{"/a/y", "u", http.StatusTeapot, ""},
		{"/a/z", "u", http.StatusTooManyRequests, "fixed-window.s"},
		{"/b/x", "u", http.StatusTeapot, ""},
		{"/a/x", "v", http.StatusTeapot, ""},
		{"/", "u", http.StatusBadRequest, ""},
		{"/a", "", http.StatusBadRequest, ""},
	} {
		header := []string{"X-User", c.user}
		if c.user == "" {
			header = nil
		}
		a := r.get(t, c.path, header...)
		if a.status != c.want {
			t.Errorf("request %d: %d %s, want %d", i+1, a.status, a.body, c.want)
		}
		if c.want == http.StatusTeapot {
			continue
		}
		if got := a.header.Get("Content-Type"); got != "application/problem+json" {
			t.Errorf("request %d: content type %q", i+1, got)
		}
		if c.violated != "" && !strings.Contains(a.body, c.violated) {
			t.Errorf("request %d: %s does not name %s", i+1, a.body, c.violated)
		}
	}
	if missing := r.get(t, "/a"); !strings.Contains(missing.body, "header X-User is missing") {
		t.Errorf("without the header: %s", missing.body)
	}
	if seen != 4 {
		t.Errorf("the upstream saw %d requests, want 4", seen)
	}
}

// TestBytes: requests and bytes are limited at once, each by its own cost.
func TestBytes(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, strings.Repeat("x", 600)); err != nil {
			t.Error(err)
		}
	})
	r := startAt(t, fixedClock, "--upstream", up, "--limit", "10/min fixed-window", "--limit", "1KB/min fixed-window debt 1KB", "--by", "query.u")
	for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
		if a := r.get(t, "/?u=1"); a.status != want {
			t.Errorf("request %d: %d %s, want %d", i+1, a.status, a.body, want)
		}
	}
}

// TestForwardedFor: the client's address is the connection's unless a trusted
// proxy says otherwise.
func TestForwardedFor(t *testing.T) {
	up := backend(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name  string
		flags []string
		want  int // status of the second request, from "another" address
	}{
		{"nobody is trusted", nil, http.StatusTooManyRequests},
		{"another network is trusted", []string{"--trust", "10.0.0.0/8"}, http.StatusTooManyRequests},
		{"the peer is trusted", []string{"--trust", "127.0.0.0/8"}, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := startAt(t, fixedClock, append(c.flags, "--upstream", up, "--limit", "1/min", "--by", "ip")...)
			if a := r.get(t, "/", "X-Forwarded-For", "203.0.113.1"); a.status != http.StatusOK {
				t.Errorf("first: %d %s", a.status, a.body)
			}
			if a := r.get(t, "/", "X-Forwarded-For", "203.0.113.2"); a.status != c.want {
				t.Errorf("second: %d, want %d", a.status, c.want)
			}
			if a := r.get(t, "/", "X-Forwarded-For", "198.51.100.7, 203.0.113.1"); a.status != http.StatusTooManyRequests {
				t.Errorf("with an address put before: %d", a.status)
			}
		})
	}
}

// TestMetricsEqualDecisions: what the page says is what clients have seen.
// TestFieldsOfTheHop: a key that Connection names is none, as the upstream does
// not get it.
func TestFieldsOfTheHop(t *testing.T) {
	up := backend(t, func(_ http.ResponseWriter, r *http.Request) {
		if _, ok := r.Header["X-Api-Key"]; !ok {
			t.Error("a request without a key was passed on")
		}
	})
	r := start(t, "--upstream", up, "--by", "header.X-Api-Key", "--limit", "2/min")
	if a := r.get(t, "/", "X-Api-Key", "a"); a.status != http.StatusOK {
		t.Errorf("with a key: got %d, want 200", a.status)
	}
	if a := r.get(t, "/", "X-Api-Key", "b", "Connection", "X-Api-Key"); a.status != http.StatusBadRequest {
		t.Errorf("with a key for this hop only: got %d, want 400", a.status)
	}
}

func TestMetricsEqualDecisions(t *testing.T) {
	r := startAt(t, fixedClock, "--limit", "7/min sliding-log", "--limit", "3/s fixed-window")
	statuses := map[int]float64{}
	const requests = 200
	for i := range requests {
		path := "/?userId=u" + string(rune('a'+i%13))
		if i%10 == 9 {
			path = "/"
		}
		statuses[r.get(t, path).status]++
	}
	m := r.metrics(t)
	sum := func(prefix, part string) (n float64) {
		for name, v := range m {
			if strings.HasPrefix(name, prefix) && strings.Contains(name, part) {
				n += v
			}
		}
		return n
	}
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"allowed", sum("sluice_decisions_total", `verdict="allowed"`), statuses[http.StatusOK]},
		{"denied", sum("sluice_decisions_total", `verdict="denied"`), statuses[http.StatusTooManyRequests]},
		{"errors", sum("sluice_store_errors_total", ""), 0},
		{"refused", m[`sluice_http_requests_total{verdict="refused"}`], statuses[http.StatusBadRequest]},
		{"all", sum("sluice_http_requests_total", ""), requests},
		{"decided", sum("sluice_decisions_total", "") + m[`sluice_http_requests_total{verdict="refused"}`], requests},
		{"states", m["sluice_keys"], 2 * 13},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
	if statuses[http.StatusOK] != 3*13 || statuses[http.StatusBadRequest] != requests/10 {
		t.Errorf("statuses %v", statuses)
	}
}

// TestGarbage: requests that no client sends in earnest do no harm.
func TestGarbage(t *testing.T) {
	up := backend(t, func(http.ResponseWriter, *http.Request) {})
	r := start(t, "--upstream", up, "--limit", "100/min", "--by", "ip", "--trust", "127.0.0.1")
	host := strings.TrimPrefix(r.url, "http://")
	for _, c := range []struct{ name, request, want string }{
		{"not HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", "400"},
		{"header too large", "GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("a", 100<<10) + "\r\n\r\n", "431"},
		{"no host", "GET / HTTP/1.1\r\n\r\n", "400"},
		{"two lengths", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx", "400"},
		{"forwarded for nonsense", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: ,,;\"\xff, " + strings.Repeat("9.9.9.9,", 5000) + "\r\n\r\n", "200"},
		{"hop that is no field", "GET / HTTP/1.1\r\nHost: x\r\nConnection: close, \xff, Host\r\n\r\n", "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", host)
			if err != nil {
				t.Fatal(err)
			}
			closeAtEnd(t, conn)
			// The gateway may have closed its end before all is sent.
			_, _ = io.WriteString(conn, c.request)
			line, err := bufio.NewReader(conn).ReadString('\n')
			if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+c.want) {
				t.Errorf("answer %q, %v; want %s", line, err, c.want)
			}
		})
	}
	if a := r.get(t, "/"); a.status != http.StatusOK {
		t.Errorf("afterwards: %d", a.status)
	}
}

func TestUpstreamThatIsDown(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	r := startAt(t, fixedClock, "--upstream", "http://"+l.Addr().String(), "--limit", "1/min")
	for i, want := range []int{http.StatusBadGateway, http.StatusTooManyRequests} {
		if a := r.get(t, "/"); a.status != want || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("request %d: %d %s, want %d", i+1, a.status, a.body, want)
		}
	}
}

func TestBanner(t *testing.T) {
	up := backend(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"sample app", nil, "sluice: URL -> the built-in sample app\n" +
			"  limit  10/min sliding-log: at most 10 requests in any minute\n" +
			"  by     query.userId\n" +
			"  admin  ADMIN/metrics, /healthz, /readyz\n" +
			"  try    curl -i 'URL/?userId=u1'\n"},
		{"upstream", []string{"--upstream", up, "--limit", "100/min", "--by", "header.X-User", "--by", "cookie.c", "--by", "path.2", "--by", "query.a&b"}, "sluice: URL -> " + up + "\n" +
			"  limit  100/min: at most 200 requests in any minute\n" +
			"  by     header.X-User, cookie.c, path.2, query.a&b\n" +
			"  admin  ADMIN/metrics, /healthz, /readyz\n" +
			"  try    curl -i -H 'X-User: u1' -b 'c=u1' 'URL/x/x/?a%26b=u1'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.flags...)
			want := strings.NewReplacer("URL", r.url, "ADMIN", r.admin).Replace(c.want)
			if r.banner != want {
				t.Errorf("banner\n%s\nwant\n%s", r.banner, want)
			}
		})
	}
}

func TestRun(t *testing.T) {
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, busy)
	taken := busy.Addr().String()
	for _, c := range []struct {
		name           string
		args           []string
		code           int
		stdout, stderr string
	}{
		{"nothing", nil, exitUsage, "", "sluice serve [flags]"},
		{"help", []string{"--help"}, exitOK, "sluice serve [flags]", ""},
		{"help of serve", []string{"serve", "--help"}, exitOK, "--limit TEXT", ""},
		{"version", []string{"version"}, exitOK, "sluice ", ""},
		{"another command", []string{"sevre"}, exitUsage, "", `sluice: there is no command "sevre"; write serve, lint, convert, status, key or version`},
		{"faults", []string{"serve", "--limit", "x", "--by", "y"}, exitUsage, "", "sluice serve: --limit \"x\": column 1: \"x\" is not a quota and a window; write for example 100/min\nsluice serve: --by \"y\": "},
		{"address taken", []string{"serve", "--listen", taken, "--admin", "off"}, exitFailed, "", "choose another with --listen"},
		{"admin's address taken", []string{"serve", "--listen", "127.0.0.1:0", "--admin", taken}, exitFailed, "", "or --admin off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var stdout, stderr bytes.Buffer
			code := run(ctx, c.args, &stdout, &stderr)
			if code != c.code || !strings.Contains(stdout.String(), c.stdout) || !strings.Contains(stderr.String(), c.stderr) {
				t.Errorf("code %d, want %d\nstdout %s\nstderr %s", code, c.code, &stdout, &stderr)
			}
			if (c.stdout == "") != (stdout.Len() == 0) || (c.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
			}
		})
	}
}
