// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
)

// TestBodyReadPastTheHandler is for the race detector: what passes a body on
// reads it still when its handler has returned, and what it has read by then
// counts.
func TestBodyReadPastTheHandler(t *testing.T) {
	const size = 64 << 10
	store, plan := newStore(newClock()), compile(t, "api", "1MB/min")
	begun, done := make(chan struct{}), make(chan error, 1)
	h := newMiddleware(t, httplimit.Options{
		Store: store, Rules: []httplimit.Rule{{Plan: plan, Key: httplimit.ByIP(), Cost: httplimit.RequestBytes()}},
	}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			_, err := io.CopyN(io.Discard, r.Body, 1<<10)
			close(begun)
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			done <- err
		}()
		<-begun
	}))
	r := request(t, "/")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", size))), -1
	h.ServeHTTP(httptest.NewRecorder(), r)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := spent(t, store, plan, client); got < 1<<10 || got > size {
		t.Errorf("%d bytes are charged; want 1024 to %d", got, size)
	}
}
