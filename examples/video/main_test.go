// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

// TestBytesAMinute fetches segments over a real connection. The responses have
// no Content-Length, so that a client sees their end after they were charged.
func TestBytesAMinute(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	var passed atomic.Int64
	films, err := newFilms(memstore.New(memstore.Options{Now: func() time.Time { return start.Add(time.Duration(passed.Load())) }}))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(films)
	defer server.Close()
	get := func(viewer string) (status int, bytes int64, policy string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/segment?viewer="+viewer, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, n, resp.Header.Get("Ratelimit-Policy")
	}
	for _, c := range []struct {
		name   string
		at     time.Duration
		viewer string
		status int
	}{
		{"first 40 MB", 0, "ann", http.StatusOK},
		{"80 MB", 0, "ann", http.StatusOK},
		{"120 MB: let in at 80", 0, "ann", http.StatusOK},
		{"the quota is spent", 0, "ann", http.StatusTooManyRequests},
		{"another viewer", 0, "bob", http.StatusOK},
		{"a minute later all 120 MB are still in sight", 60 * time.Second, "ann", http.StatusTooManyRequests},
		{"a sixth of them is out of sight: 100 MB are left", 70 * time.Second, "ann", http.StatusTooManyRequests},
		{"a byte is free", 70*time.Second + time.Microsecond, "ann", http.StatusOK},
		{"but no more", 70*time.Second + time.Microsecond, "ann", http.StatusTooManyRequests},
	} {
		passed.Store(int64(c.at))
		status, bytes, policy := get(c.viewer)
		if status != c.status {
			t.Errorf("%s: status %d, want %d", c.name, status, c.status)
		}
		if status == http.StatusOK && bytes != 40_000_000 {
			t.Errorf("%s: %d bytes", c.name, bytes)
		}
		if want := `"video";q=100000000;qu="content-bytes";w=60`; policy != want {
			t.Errorf("%s: policy %s, want %s", c.name, policy, want)
		}
	}
}
