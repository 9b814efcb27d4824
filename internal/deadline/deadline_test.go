// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package deadline_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice/internal/deadline"
)

// TestSharedDeadline: calls share a context for a short time, and it leaves each of them at
// least 63/64 of the timeout.
func TestSharedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s deadline.Shared
		first := s.Context(time.Now(), 64*time.Millisecond)
		made := map[context.Context]bool{first: true}
		for range 1000 {
			time.Sleep(100 * time.Microsecond)
			ctx := s.Context(time.Now(), 64*time.Millisecond)
			made[ctx] = true
			at, _ := ctx.Deadline()
			if left := time.Until(at); left < 63*time.Millisecond || left > 64*time.Millisecond || ctx.Err() != nil {
				t.Fatalf("%v left, %v", left, ctx.Err())
			}
		}
		if len(made) > 101 {
			t.Errorf("%d contexts in 100 ms, want one in each ms", len(made))
		}
		if !errors.Is(first.Err(), context.DeadlineExceeded) {
			t.Errorf("the first: %v", first.Err())
		}
	})
}

// TestConcurrentCallsShare: calls that begin at one instant get one context, whichever made it.
func TestConcurrentCallsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s deadline.Shared
		made := make(chan context.Context)
		for range 100 {
			go func() { made <- s.Context(time.Now(), time.Second) }()
		}
		first := <-made
		for range 99 {
			if <-made != first {
				t.Error("two contexts at one instant")
			}
		}
	})
}
