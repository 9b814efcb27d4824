// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestUnderway: end waits for all requests that have entered, and for their background work;
// no request enters after it.
func TestUnderway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := newUnderway()
		if !u.enter() {
			t.Fatal("not let in")
		}
		var ended, first atomic.Int32
		for range 2 {
			go func() {
				if u.end() {
					first.Add(1)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		u.more()
		u.done()
		if u.enter() {
			t.Error("let in after the end")
		}
		if synctest.Wait(); ended.Load() != 0 {
			t.Errorf("%d did not wait", ended.Load())
		}
		u.done()
		if synctest.Wait(); ended.Load() != 2 || first.Load() != 1 {
			t.Errorf("%d have waited, %d as the first, want 2 and 1", ended.Load(), first.Load())
		}
		if u.enter() || u.end() {
			t.Error("let in, or the first to end, after the end")
		}
	})
}

// TestUnderwayConcurrently: no request is under way after end, although more try to enter.
func TestUnderwayConcurrently(t *testing.T) {
	for range 50 {
		u := newUnderway()
		var inside atomic.Int32
		var wait sync.WaitGroup
		for range 4 {
			wait.Go(func() {
				for u.enter() {
					inside.Add(1)
					inside.Add(-1)
					u.done()
				}
			})
		}
		runtime.Gosched()
		wait.Go(func() { u.end() })
		if u.end(); inside.Load() != 0 {
			t.Fatal("something is under way after the end")
		}
		wait.Wait()
	}
}
