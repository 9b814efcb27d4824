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

// TestThousandAtOnce: a partner's burst passes, the next call waits 3.6 s.
func TestThousandAtOnce(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	api, err := newAPI(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 1001 {
		r, w := httptest.NewRequest(http.MethodGet, "/orders", nil), httptest.NewRecorder()
		r.Header.Set("X-Api-Key", "acme")
		api.ServeHTTP(w, r)
		status, retry := http.StatusOK, ""
		if i == 1000 {
			status, retry = http.StatusTooManyRequests, "4"
		}
		if w.Code != status || w.Header().Get("Retry-After") != retry {
			t.Fatalf("call %d: status %d, retry after %q, want %d, %q", i+1, w.Code, w.Header().Get("Retry-After"), status, retry)
		}
	}
}
