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
// for none of them.
func TestTwoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, done atomic.Int64
		for range 4 {
			go func() {
				err := export(t.Context(), "acme", func(held context.Context) error {
					if n := running.Add(1); n > 2 {
						t.Errorf("%d exports at once", n)
					}
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
		start := time.Now()
		err := export(t.Context(), "beta", func(context.Context) error { return nil })
		if waited := time.Since(start); err != nil || waited != 0 {
			t.Errorf("another customer waited %v, %v", waited, err)
		}
		time.Sleep(90 * time.Second)
		if got := done.Load(); got != 2 {
			t.Errorf("%d exports are done after 90 s, want 2", got)
		}
		if got := running.Load(); got != 2 {
			t.Errorf("%d exports run after 90 s, want 2", got)
		}
		time.Sleep(40 * time.Second) // the others began within a second of the end of the first
		if got := done.Load(); got != 4 {
			t.Errorf("%d exports are done after 130 s, want 4", got)
		}
	})
}

// TestWaitEnds: with the context.
func TestWaitEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		for range 2 {
			go func() {
				err := export(t.Context(), "cho", func(context.Context) error { <-stop; return nil })
				if err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := export(ctx, "cho", func(context.Context) error { t.Error("a third runs"); return nil })
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the deadline has passed", err)
		}
		close(stop)
	})
}
