// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

// TestTiers: after as many requests as pass one does not.
func TestTiers(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	limit, err := newLimit(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	handler := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		rest   time.Duration // before the requests
		key    string
		passes int
		then   int
		policy string
	}{
		{0, "ann", 60, http.StatusTooManyRequests, `"api";q=60;w=60`},
		{0, "bob", 600, http.StatusTooManyRequests, `"api";q=600;w=60`},
		{0, "cho", 60, http.StatusTooManyRequests, `"api";q=60;w=60`},
		{100 * time.Millisecond, "ann", 0, http.StatusTooManyRequests, `"api";q=60;w=60`},
		{0, "bob", 1, http.StatusTooManyRequests, `"api";q=600;w=60`}, // a unit of 600 a minute
		{0, "", 0, http.StatusBadRequest, ""},
	} {
		now = now.Add(c.rest)
		for i := range c.passes + 1 {
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			r.Header.Set("X-Api-Key", c.key)
			handler.ServeHTTP(w, r)
			status, retry := http.StatusOK, ""
			if i == c.passes {
				status = c.then
			}
			if status == http.StatusTooManyRequests {
				retry = "1" // 1 s, or 100 ms rounded up
			}
			policy := strings.Join(w.Header()["RateLimit-Policy"], ", ") //nolint:staticcheck // the draft spells it so
			if got := w.Header().Get("Retry-After"); w.Code != status || got != retry || policy != c.policy {
				t.Errorf("request %d of %q: status %d, retry after %q, policy %s; want %d, %q, %s", i+1, c.key, w.Code, got, policy, status, retry, c.policy)
			}
		}
	}
}
