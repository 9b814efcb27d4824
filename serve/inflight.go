// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// inflight counts the requests that are being handled, those included whose
// connection has switched protocol, which an [http.Server] loses sight of.
type inflight struct{ n atomic.Int64 }

func (f *inflight) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.n.Add(1)
		defer f.n.Add(-1)
		next.ServeHTTP(w, r)
	})
}

// wait blocks until there are none, or ctx ends, and returns how many are left.
// It looks again and again, as an [http.Server] does that is shut down.
func (f *inflight) wait(ctx context.Context) int {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		n := int(f.n.Load())
		if n == 0 || ctx.Err() != nil {
			return n
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}
