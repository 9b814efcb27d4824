// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
)

// TestTogether: takes of many keys at once, with contexts of all kinds, each get
// the decision of their own key.
func TestTogether(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: 10 * time.Second})
	lim, err := sluice.New(s, "together", sluice.MustParseLimit("1000/day"))
	if err != nil {
		t.Fatal(err)
	}
	cancellable, cancel := context.WithCancel(t.Context())
	defer cancel()
	bounded, cancel := context.WithTimeout(t.Context(), 9*time.Second)
	defer cancel()
	contexts := []context.Context{context.Background(), cancellable, bounded}
	var wg sync.WaitGroup
	for g := range 48 {
		wg.Go(func() {
			key, ctx := fmt.Sprintf("user%d", g), contexts[g%len(contexts)]
			cost := int64(1 + g%4)
			for i := int64(1); i <= 100; i++ {
				d, err := lim.Take(ctx, key, cost)
				if err != nil || !d.Allowed || d.Remaining < 1000-i*cost || d.Remaining > 1000-i*cost+1 {
					t.Errorf("take %d of %s: got %+v, %v; want %d remaining", i, key, d, err, 1000-i*cost)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestTogetherGivenUp: who gives up while the server is held up gets the
// context's error, and is charged once at most.
func TestTogetherGivenUp(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: 10 * time.Second})
	lim, err := sluice.New(s, "together", sluice.MustParseLimit("1000/day"))
	if err != nil {
		t.Fatal(err)
	}
	key := func(g int) string { return fmt.Sprintf("user%d", g) }
	for g := range 32 {
		if _, err := lim.Take(t.Context(), key(g), 1); err != nil {
			t.Fatal(err)
		}
	}
	release := holdUp(t, server.Client(t))
	var wg sync.WaitGroup
	for g := range 32 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err := lim.Take(ctx, key(g), 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("take of %s: got %v, want %v", key(g), err, context.DeadlineExceeded)
			}
		})
	}
	wg.Wait()
	release()
	for g := range 32 {
		d, err := lim.Take(t.Context(), key(g), 1)
		if err != nil || d.Remaining < 997 || d.Remaining > 998 {
			t.Errorf("take of %s after that: got %+v, %v; want 997 or 998 remaining", key(g), d, err)
		}
	}
}
