// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestBatchHasOneTimeout: a batch of which each request waits for the one before has
// no longer than a request, also where others wait for the server.
func TestBatchHasOneTimeout(t *testing.T) {
	const timeout, n = time.Second, 60
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: timeout})
	l := testkit.Limiter(t, s, "scope", "1000/day")
	var added, held []sluice.Request
	for i := range n {
		key := fmt.Sprint("k", i)
		add, hold := sluice.Request{Charge: l.Of(key, 1)}, sluice.Request{Charge: l.Of(key, 1)}
		if i%2 == 1 {
			add.Op, hold = sluice.OpAdd, withSlot(l.Plan(), key, "o", 1)
		}
		added, held = append(added, add), append(held, hold)
	}
	server.Stop(t)
	var wg sync.WaitGroup
	for _, reqs := range [][]sluice.Request{added, held, added, held} {
		reqs = slices.Clone(reqs)
		for i, r := range reqs {
			if r.Slot != nil {
				own := *r.Slot // which has what is decided
				reqs[i].Slot = &own
			}
		}
		wg.Go(func() {
			began, out := time.Now(), make([]sluice.Result, n)
			if err := s.TakeBatch(context.Background(), reqs, out); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took > n/2*timeout {
				t.Errorf("it took %v, and each has a Timeout of %v", took, timeout)
			}
			for i, r := range out {
				if !errors.Is(r.Err, context.DeadlineExceeded) {
					t.Errorf("request %d: got %v, want %v", i, r.Err, context.DeadlineExceeded)
				}
			}
		})
	}
	wg.Wait()
	server.Continue(t)
}
