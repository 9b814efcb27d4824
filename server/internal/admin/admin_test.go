// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/admin"
	"github.com/sluicegate/sluice/server/internal/overview"
)

func TestHandler(t *testing.T) {
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("numbers\n")); err != nil {
			t.Error(err)
		}
	})
	ready := func(is bool) admin.Options {
		return admin.Options{
			Ready: func() bool { return is }, Metrics: page,
			Store: func() (string, bool) { return "store: up", true }, Config: func() string { return "config: a.yaml" },
			Problems: func() []overview.Problem { return nil },
		}
	}
	draining, serving := ready(false), ready(true)
	for _, c := range []struct {
		name, method, path string
		opts               admin.Options
		status             int
		body               string
	}{
		{"health", "GET", "/healthz", serving, http.StatusOK, "ok\n"},
		{"health while draining", "GET", "/healthz", draining, http.StatusOK, "ok\n"},
		{"ready", "GET", "/readyz", serving, http.StatusOK, "ready\nstore: up\nconfig: a.yaml\n"},
		{"not ready while draining", "GET", "/readyz", draining, http.StatusServiceUnavailable, "draining\n"},
		{"metrics", "GET", "/metrics", serving, http.StatusOK, "numbers\n"},
		{"what there is", "GET", "/", serving, http.StatusOK, "sluice admin\n/healthz\n/readyz\n/metrics\n"},
		{"anything else", "GET", "/debug/pprof/", serving, http.StatusNotFound, "404 page not found\n"},
		{"nothing to write to", "POST", "/metrics", serving, http.StatusMethodNotAllowed, "Method Not Allowed\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(c.method, c.path, nil)
			r.Host = "127.0.0.1:9090"
			admin.Handler(c.opts).ServeHTTP(w, r)
			if w.Code != c.status || w.Body.String() != c.body {
				t.Errorf("got %d %q, want %d %q", w.Code, w.Body, c.status, c.body)
			}
		})
	}
}

func TestResolve(t *testing.T) {
	for _, c := range []struct {
		addr, want string
		public     bool
		problem    string
	}{
		{"127.0.0.1:9090", "127.0.0.1:9090", false, ""},
		{"127.8.8.8:0", "127.8.8.8:0", false, ""},
		{"[::1]:9090", "[::1]:9090", false, ""},
		{":9090", ":9090", true, ""},
		{"0.0.0.0:9090", "0.0.0.0:9090", true, ""},
		{"[::]:9090", "[::]:9090", true, ""},
		{"192.0.2.1:9090", "192.0.2.1:9090", true, ""},
		{"[::ffff:192.0.2.1]:9090", "192.0.2.1:9090", true, ""},
		{"[::ffff:127.0.0.1]:9090", "127.0.0.1:9090", false, ""},
		{"", "", false, "use for example 127.0.0.1:9090"},
		{"9090", "", false, "use for example 127.0.0.1:9090"},
		{"127.0.0.1", "", false, "use for example 127.0.0.1:9090"},
		{"127.0.0.1:x", "", false, "use for example 127.0.0.1:9090"},
		{"127.0.0.1:70000", "", false, "use for example 127.0.0.1:9090"},
	} {
		t.Run(c.addr, func(t *testing.T) {
			at, err := admin.Resolve(c.addr)
			if c.problem != "" {
				if err == nil || errors.Is(err, admin.ErrNotLoopback) || !strings.Contains(err.Error(), c.problem) {
					t.Errorf("error %v, want %q", err, c.problem)
				}
				return
			}
			if public := errors.Is(err, admin.ErrNotLoopback); public != c.public || !public && err != nil {
				t.Fatalf("error %v, public %v want %v", err, public, c.public)
			}
			if got := at.String(); got != c.want {
				t.Errorf("address %s, want %s", got, c.want)
			}
		})
	}
}
