// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command tiers is an HTTP service with 60 requests a minute for an API key, and 600 for a
// paid one.
//
//	go -C examples run ./tiers
//	curl -i -H 'X-Api-Key: ann' http://127.0.0.1:8080/
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

var paid = map[string]bool{"bob": true} // by API key

// begin
func newLimit(store sluice.Store) (*httplimit.Middleware, error) {
	rule := policy.NewRule("api", policy.Header("X-Api-Key"), sluice.PerMinute(60))
	rule.Levels[0].Tiers = &policy.Tiers{
		By:     httplimit.KeyFunc("tier", tierOf),
		Limits: map[string][]policy.Limit{"paid": {{Limit: sluice.PerMinute(600)}}},
	}
	return httplimit.New(httplimit.Options{Store: store, Rules: []policy.Rule{rule}})
}

func tierOf(r *http.Request) (string, error) {
	if paid[r.Header.Get("X-Api-Key")] {
		return "paid", nil
	}
	return "free", nil
}

// end

func main() {
	limit, err := newLimit(memstore.New(memstore.Options{}))
	if err != nil {
		log.Fatal(err)
	}
	hello := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "hello") })
	server := http.Server{Addr: "127.0.0.1:8080", Handler: limit.Wrap(hello), ReadHeaderTimeout: 5 * time.Second}
	fmt.Printf("try: curl -i -H 'X-Api-Key: ann' http://%s/\n", server.Addr)
	log.Fatal(server.ListenAndServe())
}
