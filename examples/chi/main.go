// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command chi is a small service on github.com/go-chi/chi with limits on its
// routes: every address may send 10 requests a second, and every user may post
// 3 messages a minute.
//
//	go -C examples run ./chi
//	curl -i -X POST http://127.0.0.1:8080/users/u1/messages
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
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
	if err := serve(ctx, listener); err != nil {
		log.Fatal(err)
	}
}

// serve answers until ctx ends, and then lets the requests that run finish.
func serve(ctx context.Context, listener net.Listener) error {
	handler, err := routes(memstore.New(memstore.Options{}))
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
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

// routes returns the service's handler.
func routes(store sluice.Store) (http.Handler, error) {
	perAddress, err := httplimit.Limit(store, "per-address", policy.IP(), sluice.PerSecond(10))
	if err != nil {
		return nil, err
	}
	// A parameter of a chi route is known once chi has routed: so this limit is
	// set on the route with With, not on the router with Use.
	user := httplimit.KeyFunc("user", func(r *http.Request) (string, error) {
		return chi.URLParam(r, "user"), nil
	})
	perUser, err := httplimit.Limit(store, "per-user", user, sluice.PerMinute(3))
	if err != nil {
		return nil, err
	}

	r := chi.NewRouter()
	r.Use(perAddress.Wrap)
	r.Get("/users/{user}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(map[string]string{"user": chi.URLParam(r, "user")}); err != nil {
			log.Print(err) // the client is gone
		}
	})
	r.With(perUser.Wrap).Post("/users/{user}/messages", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
	})
	return r, nil
}
