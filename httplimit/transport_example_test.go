// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
)

// A client that is limited to 100 requests a second makes 30 of them as fast as
// it may: none is denied.
func ExampleTransport() {
	mw, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", httplimit.ByIP(), sluice.PerSecond(100))
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()

	transport, err := httplimit.NewTransport(httplimit.TransportOptions{MaxWait: 10 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	answers := make(map[string]int)
	for range 30 {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
		if err != nil {
			log.Fatal(err)
		}
		res, err := client.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		if err := res.Body.Close(); err != nil {
			log.Fatal(err)
		}
		answers[res.Status]++
	}
	fmt.Println(answers)
	// Output:
	// map[200 OK:30]
}
