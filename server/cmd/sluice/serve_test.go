// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

func decode(t *testing.T, a servetest.Answer) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(a.Body), &doc); err != nil {
		t.Fatalf("%v in %q", err, a.Body)
	}
	return doc
}

// TestSampleApp: the app greets its users, and the gateway before it answers requests that
// the limit denies.
func TestSampleApp(t *testing.T) {
	t.Parallel()
	starts(t, servetest.FixedClock, []string{"--limit", "2/min sliding-log"}, func(t *testing.T, r *servetest.Gateway) {
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
			a := r.Get(t, c.path)
			doc := decode(t, a)
			content := "application/json"
			if c.word == "" {
				content = "application/problem+json"
			} else if doc["status"] != c.word || doc["userId"] != c.user || doc["message"] == "" || doc["processName"] == "" {
				t.Errorf("%s: %s, want %s of %v", c.path, a.Body, c.word, c.user)
			}
			if got := a.Header.Get("Content-Type"); a.Status != c.status || got != content {
				t.Errorf("%s: %d %s, want %d %s", c.path, a.Status, got, c.status, content)
			}
		}
	})
}

// TestEveryAnswer: clients and operators get the answers of a limit, given by flags or file.
func TestEveryAnswer(t *testing.T) {
	t.Parallel()
	args := []string{"--limit", "2/min sliding-log", "--fields", "draft-11,x-ratelimit-epoch", "--by", "header.X-User"}
	starts(t, servetest.FixedClock, args, func(t *testing.T, r *servetest.Gateway) {
		r.Get(t, "/?userId=u1", "X-User", "u1")
		near := r.Get(t, "/?userId=u1", "X-User", "u1")
		if got := near.Header.Get("Ratelimit-Warning"); !strings.Contains(got, `"gateway"`) || !strings.Contains(got, `why="near"`) {
			t.Errorf("near the limit: RateLimit-Warning is %q", got)
		}
		if got, err := strconv.ParseInt(near.Header.Get("X-Ratelimit-Reset"), 10, 64); err != nil || got < time.Now().Unix() {
			t.Errorf("X-Ratelimit-Reset is %d, %v; want seconds since 1970", got, err)
		}
		if denied := r.Get(t, "/?userId=u1", "X-User", "u1"); denied.Status != http.StatusTooManyRequests || !strings.Contains(denied.Body, "gateway") {
			t.Errorf("denied: %d %s", denied.Status, denied.Body)
		}
		if own := r.Get(t, "/.well-known/ratelimit", "X-User", "u1"); own.Status != http.StatusOK || !strings.Contains(own.Body, "gateway") {
			t.Errorf("a client's own limits: %d %s", own.Status, own.Body)
		}
		if got := r.Metrics(t)[`sluice_rule_requests_total{rule="gateway",verdict="denied"}`]; got != 1 {
			t.Errorf("%v denials of the rule are reported, want 1", got)
		}
		at := "--admin=" + r.Admin
		if out, _ := command(t, cli.OK, "status", at); !strings.Contains(out, "denied most by gateway") || !strings.Contains(out, ", version ") {
			t.Errorf("status:\n%s", out)
		}
		if out, _ := command(t, cli.OK, "key", "show", "header.X-User=u1", at); !strings.Contains(out, "0 of 2 left") {
			t.Errorf("key show:\n%s", out)
		}
		command(t, cli.OK, "key", "override", "header.X-User=u1", "--rule=gateway", "--limit=3/min", "--reason=x", at)
		r.Want(t, http.StatusOK, "/?userId=u1", "X-User", "u1")
	})
}

// TestClosed: a closed limit whose store is unavailable refuses, and says when to come
// back.
func TestClosed(t *testing.T) {
	t.Parallel()
	r := startEither(t, nil, []string{"--store", "redis://127.0.0.1:1", "--failure", "closed"})
	if a := r.Get(t, "/?userId=u1"); a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%d, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
}

// TestMetricsEqualDecisions: the metrics equal the decisions that clients have seen.
func TestMetricsEqualDecisions(t *testing.T) {
	t.Parallel()
	r := startEither(t, servetest.FixedClock, []string{"--limit", "7/min sliding-log", "--limit", "3/s fixed-window"})
	statuses := map[int]float64{}
	const requests = 200
	for i := range requests {
		path := "/?userId=u" + string(rune('a'+i%13))
		if i%10 == 9 {
			path = "/"
		}
		statuses[r.Get(t, path).Status]++
	}
	m := r.Metrics(t)
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
		{"let through", statuses[http.StatusOK], 3 * 13},
		{"without a key", statuses[http.StatusBadRequest], requests / 10},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestBanner(t *testing.T) {
	t.Parallel()
	up := servetest.Backend(t, func(http.ResponseWriter, *http.Request) {})
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
		{"store", []string{"--store", "redis://127.0.0.1:1"}, "sluice: URL -> the built-in sample app\n" +
			"  rule   gateway by query.userId: 10/min sliding-log: at most 10 requests in any minute\n" +
			"  store  redis://127.0.0.1:1; while it is unavailable requests are let through\n" +
			"  admin  ADMIN/metrics, /healthz, /readyz, /policy; see sluice status\n" +
			"  try    curl -i 'URL/?userId=u1'\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			starts(t, nil, c.flags, func(t *testing.T, r *servetest.Gateway) {
				want := strings.NewReplacer("URL", r.URL, "ADMIN", r.Admin).Replace(c.want) + "  config "
				if got := r.Banner[:strings.Index(r.Banner, "  config ")+len("  config ")]; got != want {
					t.Errorf("banner\n%s\nwant\n%s", got, want)
				}
				if want := "\n  page   " + r.Admin + "/  live: what is allowed and denied, and why\n"; !strings.HasSuffix(r.Banner, want) {
					t.Errorf("banner\n%s\ndoes not end with %q", r.Banner, want)
				}
				if from := map[bool]string{true: "the flags", false: r.File}[r.File == ""]; !strings.Contains(r.Banner, "  config from "+from+", version ") {
					t.Errorf("banner\n%s\nlacks %s", r.Banner, from)
				}
			})
		})
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	busy, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, busy)
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
		{"address of another machine", []string{"serve", "--listen", "192.0.2.1:80", "--admin", "off"}, cli.Failed, "", "listen tcp 192.0.2.1:80"},
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
