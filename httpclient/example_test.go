// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpclient_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// A client that is limited to 100 requests a second sends 30 of them as fast as it may: none
// is denied.
func ExampleTransport() {
	mw, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", policy.IP(), sluice.PerSecond(100))
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(mw.Wrap(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})))
	defer server.Close()

	transport, err := httpclient.NewTransport(httpclient.TransportOptions{MaxWait: 10 * time.Second})
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

// A server once sent a point in time instead of seconds in Retry-After, and has been mended.
// The client need not wait until MaxRetryAfter.
func ExampleTransport_Forget() {
	mended := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !mended {
			w.Header().Set("Retry-After", "1790000000")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()

	transport, err := httpclient.NewTransport(httpclient.TransportOptions{MaxRetryAfter: 5 * time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	client := &http.Client{Transport: transport}
	ask := func() error {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
		if err != nil {
			return err
		}
		res, err := client.Do(r)
		if err != nil {
			return err
		}
		fmt.Println(res.Status)
		return res.Body.Close()
	}
	if err := ask(); err != nil {
		log.Fatal(err)
	}
	if hold, held := errors.AsType[*httpclient.WaitError](ask()); held {
		fmt.Println("delayed by at most 5 minutes:", hold.Wait <= 5*time.Minute)
		mended = true
		transport.Forget(hold.Host)
	}
	if err := ask(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 429 Too Many Requests
	// delayed by at most 5 minutes: true
	// 200 OK
}

// A client spares a server that states no limits: all processes whose Limiters share a store,
// such as redisstore's, together send it ten requests a second.
func ExampleTransport_limiter() {
	limiter, err := sluice.New(memstore.New(memstore.Options{}), "partner", sluice.PerSecond(10).WithBurst(1))
	if err != nil {
		log.Fatal(err)
	}
	transport, err := httpclient.NewTransport(httpclient.TransportOptions{Limiter: limiter, MaxWait: 5 * time.Second})
	if err != nil {
		log.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	client := &http.Client{Transport: transport}
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, server.URL, nil)
	if err != nil {
		log.Fatal(err)
	}
	res, err := client.Do(r)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Status)
	if err := res.Body.Close(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 200 OK
}
