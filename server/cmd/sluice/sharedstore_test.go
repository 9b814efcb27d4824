// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// While the store is unavailable the policy decides. The outage is reported once, and
// afterwards the store decides again.
func TestStoreOutage(t *testing.T) {
	t.Parallel()
	const asked = 300
	for _, c := range []struct {
		policy string
		passed int // of those asked during the outage; the limit is 5, 4 of it spent
		status int // of the others
		ready  int
	}{
		{"open", asked, 0, http.StatusOK},
		{"local", 5, http.StatusTooManyRequests, http.StatusOK},
		{"closed", 0, http.StatusServiceUnavailable, http.StatusServiceUnavailable},
	} {
		t.Run(c.policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Redis(t))
			r := startEither(t, nil, []string{"--store", server.URL(), "--failure", c.policy, "--limit", "5/h sliding-log"})
			user := "/?userId=" + filepath.Base(t.Name())
			for range 4 {
				r.Want(t, http.StatusOK, user)
			}
			testkit.Until(t, "it to have what other nodes have", func() bool { return !strings.Contains(servetest.Ready(t, r).Body, "overrides: ") })
			server.Kill(t)
			counts := make(map[int]int)
			for range asked {
				counts[r.Get(t, user).Status]++
			}
			if counts[http.StatusOK] != c.passed || counts[http.StatusOK]+counts[c.status] != asked {
				t.Errorf("statuses %v, want %d passed and the others %d", counts, c.passed, c.status)
			}
			testkit.Until(t, "the store to be marked down", func() bool { return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 0 })
			if a := servetest.Ready(t, r); a.Status != c.ready || !strings.Contains(a.Body, "store: down; ") {
				t.Errorf("readyz: %d %q, want %d", a.Status, a.Body, c.ready)
			}
			if got := r.Metrics(t)[fmt.Sprintf("sluice_degraded_total{policy=%q,store=\"redis\"}", c.policy)]; got != asked {
				t.Errorf("%v decisions are reported to be degraded, want %d", got, asked)
			}
			if n := strings.Count(r.Logs.String(), "level=WARN"); n > 2 {
				t.Errorf("%d lines were logged:\n%s", n, r.Logs)
			}
			server.Run(t)
			testkit.Until(t, "the store to be back", func() bool { return r.Metrics(t)[`sluice_store_up{store="redis"}`] == 1 })
			if a := servetest.Ready(t, r); a.Status != http.StatusOK || !strings.HasPrefix(a.Body, "ready\nstore: up\n") {
				t.Errorf("readyz: %d %q", a.Status, a.Body)
			}
			if n := strings.Count(r.Logs.String(), "\n"); n > 4 {
				t.Errorf("%d lines were logged:\n%s", n, r.Logs)
			}
			r.Want(t, http.StatusOK, user+"2")
		})
	}
}

// TestKeyNames: states in Redis have the names that all nodes of a limit use, and none is in
// this process.
func TestKeyNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	r := startEither(t, nil, []string{"--store", server.URL(), "--limit", "3/h sliding-log", "--limit", "slow: 1MB/day fixed-window", "--by", "query.userId", "--by", "header.X-A"})
	for _, path := range []string{"/?userId=u1", "/?userId=a%7Cb%25"} {
		r.Get(t, path, "X-A", "z")
	}
	got := server.List(t, "KEYS", "sluice{1gateway*")
	slices.Sort(got)
	if want := []string{
		"sluice{1gateway.bytes/a%257Cb%2525|z}slow", "sluice{1gateway.bytes/u1|z}slow",
		"sluice{1gateway/a%257Cb%2525|z}Ghour", "sluice{1gateway/u1|z}Ghour",
	}; !slices.Equal(got, want) {
		t.Errorf("keys %q, want %q", got, want)
	}
	m := r.Metrics(t)
	if _, held := m[`sluice_keys{store="memory"}`]; held || m[`sluice_store_up{store="redis"}`] != 1 {
		t.Errorf("keys are said to be held here, or the store to be down: %v", m)
	}
}

// A node comes up while the store is unavailable, and finds it later.
func TestStoreAwayAtStart(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	server.Kill(t)
	r := startEither(t, nil, []string{"--store", server.URL(), "--limit", "2/h sliding-log"})
	user := "/?userId=" + filepath.Base(t.Name())
	for range 10 {
		r.Want(t, http.StatusOK, user)
	}
	if a := servetest.Ready(t, r); !strings.HasPrefix(a.Body, "ready\nstore: down; requests are let through; last failure: ") || !strings.Contains(a.Body, "connection refused") {
		t.Errorf("readyz: %q", a.Body)
	}
	server.Run(t)
	testkit.Until(t, "the store to be found", func() bool { return strings.HasPrefix(servetest.Ready(t, r).Body, "ready\nstore: up\n") })
	testkit.Until(t, "it to decide", func() bool { return r.Get(t, user).Status == http.StatusTooManyRequests })
	server.Kill(t)
}

// A store over TLS with a user and a password. No answer, log line, metric or error
// shows them.
func TestStoreSecrets(t *testing.T) {
	file := testkit.TempFile(t, "password", redistest.Password+"\n")
	for _, c := range []struct{ name, before, after, user, password string }{
		{"environment", "", "", redistest.User, redistest.Password},
		{"file", redistest.User + "@", "&password_file=" + file, "", ""},
		{"URL in a variable", url.UserPassword(redistest.User, redistest.Password).String() + "@", "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(redisurl.UserVariable, c.user)
			t.Setenv(redisurl.PasswordVariable, c.password)
			server := redistest.StartTLS(t, redistest.Redis(t))
			store := "rediss://" + c.before + server.Addr + redistest.Patient + "&ca_file=" + filepath.Join(server.Dir, "cert.pem") + c.after
			if strings.Contains(c.before, ":") {
				t.Setenv("REDIS_URL", store)
				store = "env:REDIS_URL"
			}
			r := startEither(t, nil, []string{"--store", store, "--limit", "1/h sliding-log", "--failure", "closed"})
			user := "/?userId=" + filepath.Base(t.Name())
			testkit.Until(t, "the store", func() bool { return r.Get(t, "/?userId=first").Status != http.StatusServiceUnavailable })
			r.WantAll(t, []int{http.StatusOK, http.StatusTooManyRequests}, user)
			server.Kill(t)
			testkit.Until(t, "an outage", func() bool { // which requests find out
				return r.Get(t, user).Status == http.StatusServiceUnavailable && servetest.Ready(t, r).Status == http.StatusServiceUnavailable
			})
			if want := "store  rediss://" + server.Addr; !strings.Contains(r.Banner, want) {
				t.Errorf("the banner %q lacks %q", r.Banner, want)
			}
			reported := r.Banner + r.Logs.String() + servetest.Ready(t, r).Body + r.Get(t, user).Body + servetest.Fetch(t, http.DefaultClient, r.Admin+"/metrics").Body
			if strings.Contains(reported, redistest.Password) || strings.Contains(reported, url.PathEscape(redistest.Password)) || strings.Contains(reported, redistest.User) {
				t.Errorf("user or password are reported:\n%s", reported)
			}
			server.Run(t)
		})
	}
}

// A lasting fault of the store ends the start. The error has the reason and not the password.
func TestStoreRefuses(t *testing.T) {
	const wrong = "not the password"
	server := redistest.StartTLS(t, redistest.Redis(t))
	ca := filepath.Join(server.Dir, "cert.pem")
	for _, c := range []struct{ name, url, want string }{
		{"wrong password", "rediss://" + redistest.User + "@" + server.Addr + "?ca_file=" + ca, "WRONGPASS"},
		{"unknown authority", "rediss://" + redistest.User + "@" + server.Addr, "certificate"},
		{"variable that is not set", "env:SLUICE_TEST_NO_SUCH_URL", "SLUICE_TEST_NO_SUCH_URL is not set"},
		{"no such file", "rediss://" + server.Addr + "?ca_file=/does/not/exist", "ca_file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(redisurl.PasswordVariable, wrong)
			var logs, out testkit.Buffer
			var err error
			testkit.Until(t, "an end", func() bool {
				_, conf, fault := parseArgs([]string{"--store", c.url, "--listen", "127.0.0.1:0", "--admin", "off"})
				if fault != nil {
					t.Fatal(fault)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				said := len(logs.String())
				err = serve.Run(ctx, serve.Options{Config: conf, Out: &out, Log: slog.New(slog.NewTextHandler(&logs, nil)), Started: cancel})
				if now := logs.String()[said:]; err == nil && !strings.Contains(now, "deadline exceeded") && !strings.Contains(now, "timeout") { // as of a machine that is busy
					t.Fatalf("it starts; logged: %s", now)
				}
				return err != nil
			})
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "store") {
				t.Fatalf("error %v, want one with %q; logged: %s", err, c.want, &logs)
			}
			if reported := err.Error() + logs.String() + out.String(); strings.Contains(reported, wrong) {
				t.Errorf("the password is reported: %s", reported)
			}
		})
	}
}
