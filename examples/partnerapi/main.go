// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command partnerapi is an API for partners, each of whom may make 1,000 calls
// an hour. A token bucket lets them come all at once, as a nightly job of 800
// does, and gives one back every 3.6 s.
//
//	go -C examples run ./partnerapi
//	curl -i -H 'X-Api-Key: acme' http://127.0.0.1:8080/orders
package main

import (
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

func main() {
	api, err := newAPI(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	const addr = "127.0.0.1:8080"
	server := http.Server{Addr: addr, Handler: api, ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("try: curl -i -H 'X-Api-Key: acme' http://%s/orders\n", addr)
	log.Fatal(server.ListenAndServe())
}

// newAPI returns the API, limited. The key must have been checked before: here
// any will do.
func newAPI(store sluice.Store) (http.Handler, error) {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("[]\n")); err != nil {
			return // the partner has gone
		}
	})
	limit, err := httplimit.Limit(store, "partners", policy.Header("X-Api-Key"), sluice.PerHour(1000))
	if err != nil {
		return nil, err
	}
	return limit.Wrap(mux), nil
}
