// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/sluicegate/sluice/memstore"
)

func TestEightHundredAtOnce(t *testing.T) {
	start := time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC)
	now := start
	api, err := newAPI(memstore.New(memstore.Options{Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	call := func(partner string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "/orders", nil)
		if partner != "" {
			r.Header.Set("X-Api-Key", partner)
		}
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	const ok, denied, refused = http.StatusOK, http.StatusTooManyRequests, http.StatusBadRequest
	for _, c := range []struct {
		name    string
		at      time.Duration
		partner string
		calls   int
		want    map[int]int
	}{
		{"a nightly job", 0, "acme", 800, map[int]int{ok: 800}},
		{"the rest of the burst", 0, "acme", 201, map[int]int{ok: 200, denied: 1}},
		{"another partner", 0, "initech", 1000, map[int]int{ok: 1000}},
		{"just before one comes back", 3600*time.Millisecond - time.Microsecond, "acme", 1, map[int]int{denied: 1}},
		{"one has come back", 3600 * time.Millisecond, "acme", 2, map[int]int{ok: 1, denied: 1}},
		{"half an hour later", 30*time.Minute + 3600*time.Millisecond, "acme", 501, map[int]int{ok: 500, denied: 1}},
		{"nobody in particular", time.Hour, "", 1, map[int]int{refused: 1}},
	} {
		now = start.Add(c.at)
		got := make(map[int]int)
		for range c.calls {
			got[call(c.partner).Code]++
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%s: statuses %v, want %v", c.name, got, c.want)
		}
	}
	for range 1000 {
		call("globex")
	}
	if got := call("globex").Header().Get("Retry-After"); got != "4" { // 3.6 s, rounded up
		t.Errorf("Retry-After %q, want 4", got)
	}
}
