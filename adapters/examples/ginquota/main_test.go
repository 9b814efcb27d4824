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

// TestQuota: the first 100 requests are answered, and one more after 600 ms.
func TestQuota(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	server := httptest.NewServer(newEngine(memstore.New(memstore.Options{Now: func() time.Time { return now }})))
	defer server.Close()
	get := func() (int, http.Header) {
		resp, err := http.Get(server.URL)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, resp.Header
	}
	for i := range 100 {
		if status, _ := get(); status != http.StatusOK {
			t.Fatalf("request %d: status %d", i+1, status)
		}
	}
	if status, header := get(); status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Errorf("request 101: status %d, retry after %q", status, header.Get("Retry-After"))
	}
	now = now.Add(600 * time.Millisecond)
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		if status, _ := get(); status != want {
			t.Errorf("after 600 ms: status %d, want %d", status, want)
		}
	}
}
