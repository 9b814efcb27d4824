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

func TestTiers(t *testing.T) {
	now := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	limit, err := newLimit(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	handler := limit.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, c := range []struct {
		key    string
		quota  int
		policy string
	}{
		{"ann", 60, `"api";q=60;w=60`},
		{"bob", 600, `"api";q=600;w=60`},
	} {
		for i := range c.quota + 1 {
			r, w := httptest.NewRequest(http.MethodGet, "/", nil), httptest.NewRecorder()
			r.Header.Set("X-Api-Key", c.key)
			handler.ServeHTTP(w, r)
			got := strings.Join(w.Header()["RateLimit-Policy"], ", ") //nolint:staticcheck // the draft spells it so
			if got != c.policy || (w.Code == http.StatusOK) != (i < c.quota) {
				t.Errorf("request %d of %s: status %d, policy %s, want %s", i+1, c.key, w.Code, got, c.policy)
			}
		}
	}
}
