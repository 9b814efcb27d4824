// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestBytesAMinute(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	films, err := newFilms(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	var body bytes.Buffer
	body.Grow(40_000_000)
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
		{"a minute later 100 MB are in sight, and 20 are owed", 60 * time.Second, "ann", http.StatusTooManyRequests},
		{"a fifth of the 100 is out of sight", 72 * time.Second, "ann", http.StatusTooManyRequests},
		{"a byte is free", 72*time.Second + time.Microsecond, "ann", http.StatusOK},
		{"but no more", 72*time.Second + time.Microsecond, "ann", http.StatusTooManyRequests},
	} {
		now = start.Add(c.at)
		body.Reset()
		w := httptest.NewRecorder()
		w.Body = &body
		films.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/segment?viewer="+c.viewer, nil))
		if w.Code != c.status || c.status == http.StatusOK && body.Len() != 40_000_000 {
			t.Errorf("%s: status %d, want %d; %d bytes", c.name, w.Code, c.status, body.Len())
		}
		policy := strings.Join(w.Header()["RateLimit-Policy"], ", ") //nolint:staticcheck // the draft spells it so
		if want := `"video";q=100000000;qu="content-bytes";w=60`; policy != want {
			t.Errorf("%s: policy %s, want %s", c.name, policy, want)
		}
	}
}
