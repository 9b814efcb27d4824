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

func TestTiers(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	limit, err := newLimit(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	handler := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	send := func(key string) *http.Response {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-Api-Key", key)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Result()
	}
	for _, c := range []struct {
		key          string
		quota        int
		policy, wait string // a unit comes back after 1 s, or 100 ms
	}{
		{"ann", 60, `"api";q=60;w=60`, "1"},
		{"bob", 600, `"api";q=600;w=60`, "1"},
		{"cho", 60, `"api";q=60;w=60`, "1"},
	} {
		for i := range c.quota {
			if resp := send(c.key); resp.StatusCode != http.StatusOK {
				t.Fatalf("request %d of %s: status %d", i+1, c.key, resp.StatusCode)
			}
		}
		resp := send(c.key)
		if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != c.wait {
			t.Errorf("request %d of %s: status %d, retry after %q", c.quota+1, c.key, resp.StatusCode, resp.Header.Get("Retry-After"))
		}
		if got := resp.Header["RateLimit-Policy"]; len(got) != 1 || got[0] != c.policy {
			t.Errorf("%s: policy %q, want %s", c.key, got, c.policy)
		}
	}
	now = now.Add(100 * time.Millisecond)
	if a, b := send("ann").StatusCode, send("bob").StatusCode; a != http.StatusTooManyRequests || b != http.StatusOK {
		t.Errorf("after 100 ms: %d and %d, want 429 and 200", a, b)
	}
	if status := send("").StatusCode; status != http.StatusBadRequest {
		t.Errorf("without a key: status %d, want 400", status)
	}
}
