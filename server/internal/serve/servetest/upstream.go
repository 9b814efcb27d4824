// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package servetest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Nobody is the URL of an upstream without a listener. A port that was free a moment ago may
// be in use by now.
const Nobody = "http://127.0.0.1:1"

// Backend returns the address of an upstream on a real socket.
func Backend(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// Named returns an upstream that answers with its name, the path it got and the size of the
// body.
func Named(t testing.TB, name string) string {
	t.Helper()
	return Backend(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the gateway answers instead
		}
		if _, err := fmt.Fprintf(w, "%s %s %d", name, r.URL.Path, n); err != nil {
			t.Error(err)
		}
	})
}

// Holding is an upstream that answers on a signal.
type Holding struct {
	URL     string
	Arrived chan struct{} // one for each request
	Release chan struct{} // closed to answer all
}

// NewHolding starts a Holding.
func NewHolding(t testing.TB) *Holding {
	t.Helper()
	h := &Holding{Arrived: make(chan struct{}), Release: make(chan struct{})}
	h.URL = Backend(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.Arrived <- struct{}{}:
		case <-r.Context().Done(): // the test has ended
			return
		}
		select {
		case <-h.Release:
		case <-r.Context().Done():
			return
		}
		if _, err := io.WriteString(w, "done"); err != nil {
			t.Error(err)
		}
	})
	return h
}
