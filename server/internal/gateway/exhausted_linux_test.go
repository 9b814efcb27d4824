// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestNoDescriptors: if this process has no file descriptor for the upstream, the answer and
// the log say so, and do not blame the upstream.
func TestNoDescriptors(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	defer up.Close()
	var log bytes.Buffer
	g, err := gateway.New(up.URL, gateway.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	front := httptest.NewServer(g)
	defer front.Close()
	get := func() (status int, body string, h http.Header) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, front.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := front.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it has been read
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text), resp.Header
	}
	if status, body, _ := get(); status != http.StatusOK { // its connection stays
		t.Fatalf("got %d %s", status, body)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	status, body, h := get()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if status != http.StatusServiceUnavailable || !strings.Contains(body, "this gateway has no connections left") || h.Get("Retry-After") == "" {
		t.Errorf("got %d %s, want 503 that says so", status, body)
	}
	if !strings.Contains(log.String(), "ulimit -n") {
		t.Errorf("the log says %q, and not what to raise", log.String())
	}
	if status, body, _ := get(); status != http.StatusOK {
		t.Errorf("later: got %d %s", status, body)
	}
}
