// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// allowing is a store that allows every request.
type allowing struct{}

func (allowing) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{Allowed: true}, nil
}

// TestPlansAreBounded: a store holds the counters of maxPlans plans at most, and counts every
// decision, also under a plan whose counters it has dropped.
func TestPlansAreBounded(t *testing.T) {
	registry := prometheus.NewRegistry()
	m, err := New(Options{Registerer: registry})
	if err != nil {
		t.Fatal(err)
	}
	s, _ := m.Wrap(allowing{}, "memory").(*store)
	held := func() (n int) {
		s.plans.Range(func(any, any) bool { n++; return true })
		return n
	}
	limit := sluice.MustParseLimit("a: 10/min")
	plan := func() *sluice.Plan {
		p, err := sluice.Compile("api", limit)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	take := func(p *sluice.Plan) {
		if _, err := s.Take(t.Context(), testkit.Request(p, "key", 1)); err != nil {
			t.Fatal(err)
		}
	}
	first := plan()
	take(first)
	for range maxPlans - 1 {
		take(plan())
	}
	if n := held(); n != maxPlans {
		t.Fatalf("%d plans held, want %d", n, maxPlans)
	}
	take(plan())
	if n := held(); n != 0 {
		t.Fatalf("%d plans held after one more, want all dropped", n)
	}
	take(first)
	take(first)
	if n := held(); n != 1 {
		t.Errorf("%d plans held, want 1", n)
	}
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if got := testkit.Metrics(t, w.Body.String())[`sluice_decisions_total{limit="a",scope="api",verdict="allowed"}`]; got != maxPlans+3 {
		t.Errorf("%v decisions counted, want %d", got, maxPlans+3)
	}
}
