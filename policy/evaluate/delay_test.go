// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// TestNoPlaceNoReservation: concurrent requests that find no place in the queue spend
// nothing: units that they could not give back would serve no request.
func TestNoPlaceNoReservation(t *testing.T) {
	for _, c := range []struct {
		limit string
		wait  time.Duration
	}{
		{"1/s burst 1", time.Minute},
		{"1/s sliding-log", time.Minute},
		{"1/s sliding-counter", time.Minute},
		{"1/s burst 90 leaky-bucket", 0},
	} {
		t.Run(c.limit, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := evaluate.NewQueue(1)
				l := newLine(t, evaluate.Options{Queue: queue}, patient(c.wait, c.limit))
				l.queue = queue
				var reserving sync.WaitGroup
				reserving.Add(3)
				l.send("a", user("ada"))
				l.send("b", user("ada")) // until 1 s, or 2 s under a counter
				l.store.After = func(req sluice.Request, r sluice.Result) error {
					if req.Op == sluice.OpReserve || req.Op == sluice.OpTake {
						reserving.Done() // none of the three gives back before all have called
						reserving.Wait()
					}
					return r.Err
				}
				var refused sync.WaitGroup
				for range 3 {
					refused.Go(func() {
						var call evaluate.Call
						l.evaluator.Decide(t.Context(), user("ada"), &call)
						if retry, ok := call.Retry(); call.Verdict != evaluate.FailedClosed || !ok || retry < time.Second {
							t.Errorf("%v, retry after %v; want failed-closed", call.Verdict, retry)
						}
					})
				}
				refused.Wait()
				if share := queue.Stats().ShareFull; share != 0 {
					t.Errorf("%d are refused for their key, want none", share)
				}
				if full := queue.Stats().Full; full != 3 {
					t.Errorf("%d are refused, want 3", full)
				}
				l.store.After = nil
				l.all.Wait()
				began := time.Now()
				l.send("c", user("ada"))
				l.all.Wait()
				if waited := time.Since(began); waited > time.Second {
					t.Errorf("the next waits %v, want a second at most", waited)
				}
			})
		})
	}
}

// TestNoPlaceIsNeeded by a request that fits now, or would be denied anyway.
func TestNoPlaceIsNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := evaluate.NewQueue(1)
		l := newLine(t, evaluate.Options{Queue: queue}, patient(3*time.Second, "1/2s burst 1"))
		l.queue = queue
		l.store.Before = func(context.Context, sluice.Request) error {
			if n := queue.Stats().Held; n != 0 {
				t.Errorf("%d are delayed while the store is asked about the first, want none", n)
			}
			return nil
		}
		l.send("a", user("ada"))
		l.store.Before = nil
		l.send("b", user("ada")) // at 2 s
		l.send("c", user("bob"))
		l.send("d", user("ada")) // would wait 4 s
		l.check("a allowed at 0s", "c allowed at 0s", "d denied at 0s", "b delayed at 2s")
	})
}
