// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
)

// A service that limits its clients and already has a registry.
func Example() {
	registry := prometheus.NewRegistry()
	m, err := metrics.New(metrics.Options{Registerer: registry})
	if err != nil {
		log.Fatal(err)
	}
	states := memstore.New(memstore.Options{})
	if err := m.WatchMemory(states.Stats, "memory"); err != nil {
		log.Fatal(err)
	}
	limits, err := httplimit.New(httplimit.Options{
		Store:      m.Wrap(states, "memory"),
		Rules:      []policy.Rule{policy.NewRule("api", policy.IP(), sluice.PerMinute(2))},
		OnDecision: m.CountHTTP, OnEnd: m.EndHTTP,
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /items/{id}", func(http.ResponseWriter, *http.Request) {})
	service := limits.Wrap(mux)
	for range 3 {
		service.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/items/7", nil))
	}

	page := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(page.Body.String()) {
		for _, name := range []string{"sluice_decisions_total", "sluice_http_responses_total", "sluice_keys"} {
			if strings.HasPrefix(line, name) {
				fmt.Print(line)
			}
		}
	}
	// Output:
	// sluice_decisions_total{limit="token-bucket.min",scope="api",verdict="allowed"} 2
	// sluice_decisions_total{limit="token-bucket.min",scope="api",verdict="denied"} 1
	// sluice_http_responses_total{class="2xx",route="GET /items/{id}"} 2
	// sluice_http_responses_total{class="4xx",route="other"} 1
	// sluice_keys{store="memory"} 1
}
