// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
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
	server := httptest.NewServer(limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()
	send := func(key string) (status int, header http.Header) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", key)
		resp, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header
	}
	for _, c := range []struct {
		key    string
		quota  int
		policy string
	}{
		{"ann", 60, `"api";q=60;w=60`},
		{"bob", 600, `"api";q=600;w=60`},
		{"cho", 60, `"api";q=60;w=60`},
	} {
		for i := range c.quota {
			if status, _ := send(c.key); status != http.StatusOK {
				t.Fatalf("request %d of %s: status %d", i+1, c.key, status)
			}
		}
		status, header := send(c.key)
		if retry := header.Get("Retry-After"); status != http.StatusTooManyRequests || retry != "1" { // 1 s, or 100 ms rounded up
			t.Errorf("request %d of %s: status %d, retry after %q", c.quota+1, c.key, status, retry)
		}
		if got := header.Get("Ratelimit-Policy"); got != c.policy {
			t.Errorf("%s: policy %q, want %s", c.key, got, c.policy)
		}
	}
	now = now.Add(100 * time.Millisecond) // a unit of 600 a minute
	for _, c := range []struct {
		key    string
		status int
	}{{"ann", http.StatusTooManyRequests}, {"bob", http.StatusOK}, {"", http.StatusBadRequest}} {
		if status, _ := send(c.key); status != c.status {
			t.Errorf("%q after 100 ms: status %d, want %d", c.key, status, c.status)
		}
	}
}
