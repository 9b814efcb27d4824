// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestTogether: many keys are taken from at once, with contexts of all kinds, and each take
// gets the decision of its own key. A caller that leaves while the server is blocked gets the
// context's error, and is charged at most once.
func TestTogether(t *testing.T) {
	const callers, takes = 16, 100
	server := redistest.Shared(t, redistest.Redis(t))
	lim := testkit.Limiter(t, open(t, server, redisstore.Options{Timeout: testkit.Ceiling}), "together", "1000/366day")
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	bounded, cancel := context.WithTimeout(t.Context(), 10*testkit.Ceiling)
	defer cancel()
	contexts := []context.Context{context.Background(), cancellable, bounded}
	each := func(do func(ctx context.Context, key string, cost int64)) {
		clienttest.Line(callers, func(i int) { do(contexts[i%len(contexts)], fmt.Sprint("user", i), int64(1+i%4)) })()
	}
	each(func(ctx context.Context, key string, cost int64) {
		for i := range int64(takes) {
			if d, err := lim.Take(ctx, key, cost); err != nil || !d.Allowed || d.Remaining != 1000-(i+1)*cost {
				t.Errorf("take %d of %s: got %+v, %v; want %d remaining", i+1, key, d, err, 1000-(i+1)*cost)
				return
			}
		}
	})
	release := redistest.HoldUp(t, server)
	stays := clienttest.Line(1, func(int) { // on the connection that the other callers leave
		if d, err := lim.Take(t.Context(), "patient", 1); err != nil || d.Remaining != 999 {
			t.Errorf("who waits: got %+v, %v, want 999 remaining", d, err)
		}
	})
	redistest.AwaitBlocked(t, server, "1")
	each(func(ctx context.Context, key string, cost int64) {
		ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := lim.Take(ctx, key, cost); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("take of %s: got %v, want %v", key, err, context.DeadlineExceeded)
		}
	})
	release()
	stays()
	each(func(ctx context.Context, key string, cost int64) {
		left := 1000 - (takes+1)*cost
		if d, err := lim.Take(ctx, key, cost); err != nil || d.Remaining != left && d.Remaining != left-cost {
			t.Errorf("take of %s after that: got %+v, %v; want %d or %d remaining", key, d, err, left-cost, left)
		}
	})
}
