// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"net/http"
	"sync"
)

// inflight counts the requests that are being handled, those included whose
// connection has switched protocol, which an [http.Server] loses sight of.
type inflight struct {
	mu   sync.Mutex
	n    int
	none chan struct{} // closed when n falls to 0; nil if nobody waits
}

func (f *inflight) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.add(1)
		defer f.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (f *inflight) add(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n += n
	if f.n == 0 && f.none != nil {
		close(f.none)
		f.none = nil
	}
}

// wait blocks until there are none, or ctx ends, and returns how many are left.
func (f *inflight) wait(ctx context.Context) int {
	f.mu.Lock()
	if f.n == 0 {
		f.mu.Unlock()
		return 0
	}
	if f.none == nil {
		f.none = make(chan struct{})
	}
	none := f.none
	f.mu.Unlock()
	select {
	case <-none:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}
