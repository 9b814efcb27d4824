// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// holder is an evaluator that delays, and its requests.
type holder struct {
	t         *testing.T
	evaluator *evaluate.Evaluator
	queue     *evaluate.Queue
	all       sync.WaitGroup
}

func newHolder(t *testing.T, queue *evaluate.Queue, rules ...policy.Rule) *holder {
	t.Helper()
	return &holder{t: t, queue: queue, evaluator: newEvaluator(t, evaluate.Options{Rules: rules, Queue: queue})}
}

// come sends a request, waits until it is delayed or decided, and returns its Call.
func (h *holder) come(ctx context.Context, address string) *evaluate.Call {
	h.t.Helper()
	ended := make(chan *evaluate.Call, 1)
	h.all.Go(func() {
		c := new(evaluate.Call)
		h.evaluator.Decide(ctx, client(address), c)
		ended <- c
	})
	synctest.Wait()
	select {
	case c := <-ended:
		return c
	default:
		return nil
	}
}

// TestShareOfPlaces: one key takes a tenth of the places, or its configured share; others get
// the rest. The answer says whether the share or the queue was full. The place of a request
// that leaves is free at once.
func TestShareOfPlaces(t *testing.T) {
	for _, c := range []struct {
		name          string
		places, share int
		want          int // how many of one key are delayed
	}{
		{"a tenth", 200, 0, 20},
		{"at least ten", 30, 0, 10},
		{"as many as it is given", 200, 3, 3},
		{"no more than there are", 4, 0, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := evaluate.NewQueue(c.places)
				queue.Resize(c.places, c.share)
				h := newHolder(t, queue, policy.NewRule("api", policy.IP(), sluice.MustParseLimit("1/h leaky-bucket burst 1000")))
				ctx, end := context.WithCancel(t.Context())
				leaving, leave := context.WithCancel(ctx)
				h.come(ctx, "192.0.2.1") // at once
				h.come(leaving, "192.0.2.1")
				for queue.Stats().Held < c.want {
					if call := h.come(ctx, "192.0.2.1"); call != nil {
						t.Fatalf("with %d held: %v, %v", queue.Stats().Held, call.Verdict, call.Err)
					}
				}
				full := h.come(ctx, "192.0.2.1")
				ofKey := c.want < c.places
				if full == nil || full.Verdict != evaluate.FailedClosed || !errors.Is(full.Err, evaluate.ErrQueueFull) ||
					strings.Contains(full.Err.Error(), "the key's share") != ofKey {
					t.Fatalf("with %d of the key held: %+v, want it to be of the key: %v", queue.Stats().Held, full, ofKey)
				}
				leave()
				synctest.Wait()
				if call := h.come(ctx, "192.0.2.1"); call != nil {
					t.Errorf("in place of one who left: %v, %v", call.Verdict, call.Err)
				}
				for i := 2; queue.Stats().Held < c.places; i++ {
					address := fmt.Sprintf("192.0.2.%d", i)
					h.come(ctx, address) // at once
					for range 5 {
						h.come(ctx, address)
					}
				}
				other := h.come(ctx, "192.0.2.1")
				if other == nil || !errors.Is(other.Err, evaluate.ErrQueueFull) {
					t.Errorf("with all places taken: %+v", other)
				}
				refusedShare := queue.Stats().ShareFull
				if (refusedShare > 0) != (c.want < c.places) {
					t.Errorf("%d were refused for their share", refusedShare)
				}
				end()
				h.all.Wait()
				if queue.Stats().Held != 0 {
					t.Errorf("%d places are taken at the end", queue.Stats().Held)
				}
			})
		})
	}
}

// TestShareIsOfTheLimitThatQueues: requests of many keys, each delayed by its own key, do not
// share places because another limit of all of them is nearly spent.
func TestShareIsOfTheLimitThatQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := evaluate.NewQueue(100)
		h := newHolder(t, queue,
			policy.Rule{Name: "all", Levels: []policy.Level{{Limits: []policy.Limit{{Limit: sluice.PerHour(50)}}}}},
			policy.NewRule("each", policy.IP(), sluice.MustParseLimit("1/h leaky-bucket burst 1000")))
		ctx, end := context.WithCancel(t.Context())
		defer end()
		for i := range 15 {
			address := fmt.Sprintf("192.0.2.%d", i+1)
			h.come(ctx, address) // at once
			if call := h.come(ctx, address); call != nil {
				t.Fatalf("the second of %s: %v, %v", address, call.Verdict, call.Err)
			}
		}
		end()
		h.all.Wait()
	})
}
