// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestTwoAtOnce: four exports of a minute each take two minutes. Another customer waits
// for none of them, and who waits does so until its context ends.
func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, done atomic.Int64
		for range 4 {
			go func() {
				err := export(t.Context(), "acme", func(held context.Context) error {
					running.Add(1)
					defer running.Add(-1)
					time.Sleep(time.Minute) // six times the TTL
					done.Add(1)
					return held.Err()
				})
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		start := time.Now()
		err := export(t.Context(), "beta", func(context.Context) error { return nil })
		if waited := time.Since(start); err != nil || waited != 0 {
			t.Errorf("another customer waited %v, %v", waited, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		err = export(ctx, "acme", func(context.Context) error { t.Error("a third runs"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline has passed", err)
		}
		for _, c := range []struct {
			at            time.Duration
			running, done int64
		}{
			{59 * time.Second, 2, 0},
			{90 * time.Second, 2, 2},
			{130 * time.Second, 0, 4}, // the others began within a second of the end of the first
		} {
			time.Sleep(c.at - time.Since(start))
			if r, d := running.Load(), done.Load(); r != c.running || d != c.done {
				t.Errorf("after %v: %d exports run and %d are done, want %d and %d", c.at, r, d, c.running, c.done)
			}
		}
	})
}
