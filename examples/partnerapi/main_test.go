// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

// TestEightHundredAtOnce: after as many calls as pass one does not.
func TestEightHundredAtOnce(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	api, err := newAPI(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	const comesBack = 3600 * time.Millisecond
	for _, c := range []struct {
		name    string
		at      time.Duration
		partner string
		passes  int
		then    int // 0 for no other call
		retry   string
	}{
		{"a nightly job", 0, "acme", 800, 0, ""},
		{"the rest of the burst", 0, "acme", 200, http.StatusTooManyRequests, "4"}, // 3.6 s, rounded up
		{"another partner", 0, "initech", 1000, 0, ""},
		{"just before one comes back", comesBack - time.Microsecond, "acme", 0, http.StatusTooManyRequests, "1"},
		{"one has come back", comesBack, "acme", 1, http.StatusTooManyRequests, "4"},
		{"half an hour later", 30*time.Minute + comesBack, "acme", 500, http.StatusTooManyRequests, "4"},
		{"nobody in particular", time.Hour, "", 0, http.StatusBadRequest, ""},
	} {
		now = start.Add(c.at)
		call := func(status int, retry string) {
			r, w := httptest.NewRequest(http.MethodGet, "/orders", nil), httptest.NewRecorder()
			if c.partner != "" {
				r.Header.Set("X-Api-Key", c.partner)
			}
			api.ServeHTTP(w, r)
			if got := w.Header().Get("Retry-After"); w.Code != status || got != retry {
				t.Errorf("%s: status %d, retry after %q, want %d, %q", c.name, w.Code, got, status, retry)
			}
		}
		for range c.passes {
			call(http.StatusOK, "")
		}
		if c.then != 0 {
			call(c.then, c.retry)
		}
	}
}
