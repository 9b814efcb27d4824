// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httpserver

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// inflight counts the requests in progress, those on connections that switched protocol
// included, which an [http.Server] no longer tracks.
type inflight struct{ n atomic.Int64 }

func (f *inflight) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.n.Add(1)
		defer f.n.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// wait blocks until no request is in progress or ctx ends.
func (f *inflight) wait(ctx context.Context) { WaitForNone(ctx, func() int { return int(f.n.Load()) }) }

// WaitForNone polls left until it returns 0 or ctx ends, and returns its last result.
func WaitForNone(ctx context.Context, left func() int) int {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		n := left()
		if n == 0 || ctx.Err() != nil {
			return n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
