// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// TestBodyReadPastTheHandler is for the race detector: code that passes a body on may still
// read it when its handler has returned. Bytes read by then count, and the rest is never
// read.
func TestBodyReadPastTheHandler(t *testing.T) {
	const size = 64 << 10
	const limit = "1MB/min"
	store := newStore(newClock())
	started, done := make(chan struct{}), make(chan error, 1)
	h := newMiddleware(t, httplimit.Options{
		Store: store,
		Rules: []policy.Rule{costing(rule(t, "api", policy.IP(), limit), policy.Cost{Of: policy.RequestBytes})},
	}).Wrap(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		go func() {
			_, err := io.CopyN(io.Discard, r.Body, 1<<10)
			close(started)
			if err == nil {
				_, err = io.Copy(io.Discard, r.Body)
			}
			done <- err
		}()
		<-started
	}))
	r := request(t, "/")
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(strings.Repeat("x", size))), -1
	h.ServeHTTP(httptest.NewRecorder(), r)
	if err := <-done; err != nil && !errors.Is(err, http.ErrBodyReadAfterClose) {
		t.Fatal(err)
	}
	if got := spent(t, store, testkit.Plan(t, "api", limit), client); got < 1<<10 || got > size {
		t.Errorf("%d bytes are charged; want 1024 to %d", got, size)
	}
}
