// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/cli"
)

func decode(t *testing.T, a answer) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatalf("%v in %q", err, a.body)
	}
	return doc
}

// TestSampleApp: the app greets its users, and the gateway before it answers what
// the limit does not let through.
func TestSampleApp(t *testing.T) {
	starts(t, fixedClock, []string{"--limit", "2/min sliding-log"}, func(t *testing.T, r *running) {
		for _, c := range []struct {
			path   string
			status int
			word   string // of the app; empty: it is not asked
			user   any
		}{
			{"/?userId=u1", http.StatusOK, "ok", "u1"},
			{"/?userId=u1", http.StatusOK, "ok", "u1"},
			{"/?userId=u1", http.StatusTooManyRequests, "", nil},
			{"/?userId=u2", http.StatusOK, "ok", "u2"},
			{"/", http.StatusBadRequest, "", nil},
			{"/?userId=", http.StatusBadRequest, "", nil},
			{"/?userId=u3&userId=u4", http.StatusBadRequest, "", nil},
			{"/other?userId=u5", http.StatusNotFound, "error", "u5"},
			{"/?userId=%22%3Cscript%3E%00", http.StatusOK, "ok", "\"<script>\x00"},
		} {
			a := r.get(t, c.path)
			doc := decode(t, a)
			content := "application/json"
			if c.word == "" {
				content = "application/problem+json"
			} else if doc["status"] != c.word || doc["userId"] != c.user || doc["message"] == "" || doc["processName"] == "" {
				t.Errorf("%s: %s, want %s of %v", c.path, a.body, c.word, c.user)
			}
			if got := a.header.Get("Content-Type"); a.status != c.status || got != content {
				t.Errorf("%s: %d %s, want %d %s", c.path, a.status, got, c.status, content)
			}
		}
	})
}

func TestHeaderFields(t *testing.T) {
	starts(t, fixedClock, []string{"--limit", "2/min sliding-log"}, func(t *testing.T, r *running) {
		r.get(t, "/?userId=u1")
		allowed, denied := r.get(t, "/?userId=u1"), r.get(t, "/?userId=u1")
		for _, c := range []struct {
			name string
			got  answer
			want map[string]string
		}{
			{"allowed", allowed, map[string]string{
				"Ratelimit": `"gateway";r=0;t=60`, "Ratelimit-Policy": `"gateway";q=2;w=60`, "Retry-After": "",
				"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "60", "X-Ratelimit-Retry-After": "",
			}},
			{"denied", denied, map[string]string{
				"Ratelimit": `"gateway";r=0;t=60`, "Ratelimit-Policy": `"gateway";q=2;w=60`, "Retry-After": "60",
				"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "60", "X-Ratelimit-Retry-After": "60",
			}},
		} {
			for name, want := range c.want {
				if got := strings.Join(c.got.header.Values(name), "|"); got != want {
					t.Errorf("%s: %s is %q, want %q", c.name, name, got, want)
				}
			}
		}
	})
}

// TestUpstream: in front of a real app the answers are problem documents, a
// key is several parts, and several limits are all or none.
func TestUpstream(t *testing.T) {
	seen := 0
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		seen++
		w.WriteHeader(http.StatusTeapot)
	})
	starts(t, fixedClock, []string{"--upstream", up, "--limit", "3/min sliding-log", "--limit", "2/s fixed-window", "--by", "path.1", "--by", "header.X-User"}, func(t *testing.T, r *running) {
		seen = 0
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
	})
}

// TestBytes: requests and bytes are limited at once, each by its own cost.
func TestBytes(t *testing.T) {
	up := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, strings.Repeat("x", 600)); err != nil {
			t.Error(err)
		}
	})
	starts(t, fixedClock, []string{"--upstream", up, "--limit", "10/min fixed-window", "--limit", "1KB/min fixed-window debt 1KB", "--by", "query.u"}, func(t *testing.T, r *running) {
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			if a := r.get(t, "/?u=1"); a.status != want {
				t.Errorf("request %d: %d %s, want %d", i+1, a.status, a.body, want)
			}
		}
	})
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
			starts(t, fixedClock, append(c.flags, "--upstream", up, "--limit", "1/min", "--by", "ip"), func(t *testing.T, r *running) {
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
	starts(t, nil, []string{"--upstream", up, "--by", "header.X-Api-Key", "--limit", "2/min"}, func(t *testing.T, r *running) {
		if a := r.get(t, "/", "X-Api-Key", "a"); a.status != http.StatusOK {
			t.Errorf("with a key: got %d, want 200", a.status)
		}
		if a := r.get(t, "/", "X-Api-Key", "b", "Connection", "X-Api-Key"); a.status != http.StatusBadRequest {
			t.Errorf("with a key for this hop only: got %d, want 400", a.status)
		}
	})
}

// TestEveryAnswer: what clients and operators get of a limit, however it was
// given.
func TestEveryAnswer(t *testing.T) {
	args := []string{"--limit", "2/min sliding-log", "--fields", "draft-11,x-ratelimit-epoch", "--by", "header.X-User"}
	starts(t, fixedClock, args, func(t *testing.T, r *running) {
		r.get(t, "/?userId=u1", "X-User", "u1")
		near := r.get(t, "/?userId=u1", "X-User", "u1")
		if got := near.header.Get("Ratelimit-Warning"); !strings.Contains(got, `"gateway"`) || !strings.Contains(got, `why="near"`) {
			t.Errorf("near the limit: RateLimit-Warning is %q", got)
		}
		if got, err := strconv.ParseInt(near.header.Get("X-Ratelimit-Reset"), 10, 64); err != nil || got < time.Now().Unix() {
			t.Errorf("X-Ratelimit-Reset is %d, %v; want seconds since 1970", got, err)
		}
		if denied := r.get(t, "/?userId=u1", "X-User", "u1"); denied.status != http.StatusTooManyRequests || !strings.Contains(denied.body, "gateway") {
			t.Errorf("denied: %d %s", denied.status, denied.body)
		}
		if own := r.get(t, "/.well-known/ratelimit", "X-User", "u1"); own.status != http.StatusOK || !strings.Contains(own.body, "gateway") {
			t.Errorf("a client's own limits: %d %s", own.status, own.body)
		}
		if got := r.metrics(t)[`sluice_rule_requests_total{rule="gateway",verdict="denied"}`]; got != 1 {
			t.Errorf("%v denials of the rule are reported, want 1", got)
		}
		at := "--admin=" + r.admin
		if out, _ := command(t, cli.OK, "status", at); !strings.Contains(out, "denied most by gateway") || !strings.Contains(out, ", version ") {
			t.Errorf("status:\n%s", out)
		}
		if out, _ := command(t, cli.OK, "key", "show", "header.X-User=u1", at); !strings.Contains(out, "0 of 2 left") {
			t.Errorf("key show:\n%s", out)
		}
		command(t, cli.OK, "key", "override", "header.X-User=u1", "--rule=gateway", "--limit=3/min", "--reason=x", at)
		if a := r.get(t, "/?userId=u1", "X-User", "u1"); a.status != http.StatusOK {
			t.Errorf("with an override: %d", a.status)
		}
	})
}

// TestClosed: a closed limit whose store is unavailable refuses, and says when to come
// back.
func TestClosed(t *testing.T) {
	starts(t, nil, []string{"--store", "redis://127.0.0.1:1", "--failure", "closed"}, func(t *testing.T, r *running) {
		if a := r.get(t, "/?userId=u1"); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") != "1" {
			t.Errorf("%d, Retry-After %q", a.status, a.header.Get("Retry-After"))
		}
	})
}

func TestMetricsEqualDecisions(t *testing.T) {
	starts(t, fixedClock, []string{"--limit", "7/min sliding-log", "--limit", "3/s fixed-window"}, func(t *testing.T, r *running) {
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
			{"errors", sum("sluice_operation_errors_total", ""), 0},
			{"refused", m[`sluice_requests_total{verdict="refused"}`], statuses[http.StatusBadRequest]},
			{"all", sum("sluice_requests_total", ""), requests},
			{"decided", sum("sluice_decisions_total", "") + m[`sluice_requests_total{verdict="refused"}`], requests},
			{"states", m[`sluice_keys{store="memory"}`], 2 * 13},
		} {
			if c.got != c.want {
				t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
			}
		}
		if statuses[http.StatusOK] != 3*13 || statuses[http.StatusBadRequest] != requests/10 {
			t.Errorf("statuses %v", statuses)
		}
	})
}

func TestBanner(t *testing.T) {
	up := backend(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name  string
		flags []string
		want  string
	}{
		{"sample app", nil, "sluice: URL -> the built-in sample app\n" +
			"  rule   gateway by query.userId: 10/min sliding-log: at most 10 requests in any minute\n" +
			"  admin  ADMIN/metrics, /healthz, /readyz, /policy; see sluice status\n" +
			"  try    curl -i 'URL/?userId=u1'\n"},
		{"upstream", []string{"--upstream", up, "--limit", "100/min", "--by", "header.X-User", "--by", "cookie.c", "--by", "path.2", "--by", "query.a&b"}, "sluice: URL -> " + up + "\n" +
			"  rule   gateway by header.X-User, cookie.c, path.2, query.a&b: 100/min: at most 200 requests in any minute\n" +
			"  admin  ADMIN/metrics, /healthz, /readyz, /policy; see sluice status\n" +
			"  try    curl -i -H 'X-User: u1' -b 'c=u1' 'URL/x/x/?a%26b=u1'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			starts(t, nil, c.flags, func(t *testing.T, r *running) {
				want := strings.NewReplacer("URL", r.url, "ADMIN", r.admin).Replace(c.want) + "  config "
				if got := r.banner[:strings.Index(r.banner, "  config ")+len("  config ")]; got != want {
					t.Errorf("banner\n%s\nwant\n%s", got, want)
				}
				if want := "\n  page   " + r.admin + "/  live: what is allowed and denied, and why\n"; !strings.HasSuffix(r.banner, want) {
					t.Errorf("banner\n%s\ndoes not end with %q", r.banner, want)
				}
				if from := map[bool]string{true: "the flags", false: r.file}[r.file == ""]; !strings.Contains(r.banner, "  config from "+from+", version ") {
					t.Errorf("banner\n%s\nlacks %s", r.banner, from)
				}
			})
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
		{"nothing", nil, cli.Usage, "", "sluice serve         pass requests on"},
		{"help", []string{"--help"}, cli.OK, "sluice serve         pass requests on", ""},
		{"help of serve", []string{"serve", "--help"}, cli.OK, "--limit TEXT", ""},
		{"version", []string{"version"}, cli.OK, "sluice ", ""},
		{"another command", []string{"sevre"}, cli.Usage, "", `sluice: unknown command "sevre"; did you mean serve?`},
		{"faults", []string{"serve", "--limit", "x", "--by", "y"}, cli.Usage, "", "sluice serve: --by: unknown key part \"y\"; use "},
		{"address taken", []string{"serve", "--listen", taken, "--admin", "off"}, cli.Failed, "", "choose another"},
		{"admin's address taken", []string{"serve", "--listen", "127.0.0.1:0", "--admin", taken}, cli.Failed, "", "use another address for admin, or off"},
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
