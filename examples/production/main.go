// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command production is a small service with all that limits need in production:
// counters in Redis that all its processes share, a share of the limit for each
// process while Redis is unavailable, and metrics for Prometheus. It starts
// whether or not Redis is there.
//
//	REDIS_URL=redis://127.0.0.1:6379 go -C examples run ./production
//	curl -i http://127.0.0.1:8080/
//	curl http://127.0.0.1:8080/metrics
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/remote"
)

func main() {
	addr := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("listening on http://%s\n", listener.Addr())
	if err := serve(ctx, listener, os.Getenv("REDIS_URL")); err != nil {
		log.Fatal(err)
	}
}

// processes is how many share the Redis: among as many a limit is divided while Redis is
// unavailable.
const processes = 3

// wiring is what a service needs of this module. The store is closed last.
type wiring struct {
	shared *rueidisstore.Store
	store  *remote.Store
	limits *httplimit.Middleware
}

// wire is all of it: the shared store, what to do while it is unavailable, the
// metrics and the middleware.
func wire(ctx context.Context, redisURL string, registry prometheus.Registerer) (w wiring, err error) {
	w.shared, err = rueidisstore.Open(ctx, redisURL, redisstore.Options{})
	if err != nil {
		return w, err
	}
	w.store, err = remote.Wrap(w.shared, remote.Options{
		Policy: sluice.FailLocal, Local: memstore.New(memstore.Options{}), Nodes: func() int { return processes },
	})
	if err != nil {
		return w, err
	}
	counts, err := metrics.New(metrics.Options{Registerer: registry})
	if err != nil {
		return w, err
	}
	err = counts.WatchShared(w.store.Stats, "redis")
	if err != nil {
		return w, err
	}
	w.limits, err = httplimit.New(httplimit.Options{
		Store: counts.Wrap(w.store, "redis"), OnDecision: counts.CountHTTP, OnEnd: counts.EndHTTP,
		Rules: []policy.Rule{policy.NewRule("per-address", policy.IP(), sluice.PerHour(100))},
	})
	return w, err
}

// close ends the stores, as far as they are open.
func (w *wiring) close() (err error) {
	if w.store != nil {
		err = w.store.Close()
	}
	if w.shared != nil {
		err = errors.Join(err, w.shared.Close())
	}
	return err
}

// serve answers until ctx ends, and then lets the requests that run finish.
func serve(ctx context.Context, listener net.Listener, redisURL string) (err error) {
	registry := prometheus.NewRegistry()
	w, err := wire(ctx, redisURL, registry)
	defer func() { err = errors.Join(err, w.close()) }()
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", w.limits.Wrap(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := fmt.Fprintln(w, "hello"); err != nil {
			log.Print(err)
		}
	})))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	err = srv.Shutdown(drain)
	if served := <-done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}
