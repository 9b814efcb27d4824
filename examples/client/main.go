// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Command client reads an API of 5 requests a minute a hundred times: what a cache
// (RFC 9111) around the transport still has, costs nothing. An API of its own answers it.
//
//	go -C examples run ./client
package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	"github.com/bartventer/httpcache"
	_ "github.com/bartventer/httpcache/store/memcache" // which keeps all; fscache is for many URLs

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httpclient"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
)

// newClient returns a client that keeps to the limits of servers, and sends no request
// whose answer its cache has. The cache is outside: what it answers is not delayed.
func newClient(base http.RoundTripper) (*http.Client, error) {
	limited, err := httpclient.NewTransport(httpclient.TransportOptions{Base: base})
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: httpcache.NewTransport("memcache://", httpcache.WithUpstream(limited))}, nil
}

// newAPI returns an API whose answers may be used again for 30 seconds, and after
// that once it has confirmed them.
func newAPI() (http.Handler, error) {
	limit, err := httplimit.Limit(memstore.New(memstore.Options{}), "api", policy.IP(), sluice.PerMinute(5))
	if err != nil {
		return nil, err
	}
	return limit.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=30")
		w.Header().Set("ETag", `"v1"`)
		if r.Header.Get("If-None-Match") == `"v1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, "1 EUR = 1.09 USD\n")
	})), nil
}

// read reads a URL to its end.
func read(client *http.Client, url string) error {
	resp, err := client.Get(url) //nolint:noctx // it is short
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end, or broke
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

func main() {
	api, err := newAPI()
	if err != nil {
		log.Fatal(err)
	}
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		api.ServeHTTP(w, r)
	}))
	defer server.Close()
	client, err := newClient(http.DefaultTransport)
	if err != nil {
		log.Fatal(err)
	}
	for range 100 {
		if err := read(client, server.URL+"/rates"); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Printf("reads: 100, requests: %d\n", asked.Load())
}
