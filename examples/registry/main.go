// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command registry counts what a limit decides in the program's own registry of
// Prometheus, beside the program's own series.
//
//	go -C examples run ./registry
//	curl http://127.0.0.1:8080/
//	curl http://127.0.0.1:8080/metrics
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
)

// begin
func newLimit(registry prometheus.Registerer) (*httplimit.Middleware, error) {
	counts, err := metrics.New(metrics.Options{Registerer: registry})
	if err != nil {
		return nil, err
	}
	store := counts.Wrap(memstore.New(memstore.Options{}), "memory")
	return httplimit.Limit(store, "per-address", policy.IP(), sluice.PerMinute(5))
}

// end

func newHandler() (http.Handler, error) {
	registry := prometheus.NewRegistry()
	limit, err := newLimit(registry)
	if err != nil {
		return nil, err
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") })
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", limit.Wrap(hello))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	server := http.Server{Addr: "127.0.0.1:8080", Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("try: curl http://%s/ and http://%[1]s/metrics\n", server.Addr)
	log.Fatal(server.ListenAndServe())
}
