// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// TestDeadlineIsAContext: a deadline ends when its caller leaves, when its time is over or
// when end is called, whether Done was called or not; contexts derived from it end with it.
func TestDeadlineIsAContext(t *testing.T) {
	type key struct{}
	for _, c := range []struct {
		name  string
		after time.Duration // with a Timeout of a second
		own   time.Duration // the caller's deadline
		end   func(cancel context.CancelFunc, d context.Context)
		want  error
	}{
		{"under way", time.Second / 2, time.Hour, nil, nil},
		{"timeout", time.Second, time.Hour, nil, context.DeadlineExceeded},
		{"the caller's deadline", time.Second / 2, time.Second / 2, nil, context.DeadlineExceeded},
		{"the caller has left", 0, time.Hour, func(cancel context.CancelFunc, _ context.Context) { cancel() }, context.Canceled},
		{"released", 0, time.Hour, func(_ context.CancelFunc, d context.Context) { end(d) }, context.Canceled},
	} {
		for _, asked := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &Store{opts: Options{Timeout: time.Second}}
					parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, 7), c.own)
					defer cancel()
					d := s.bound(parent)
					defer end(d)
					if at, ok := d.Deadline(); !ok || time.Until(at) != min(c.own, time.Second) {
						t.Errorf("deadline %v, %v", at, ok)
					}
					var child context.Context
					if asked {
						before := runtime.NumGoroutine()
						var end context.CancelFunc
						child, end = context.WithCancel(d)
						defer end()
						if n := runtime.NumGoroutine(); n > before {
							t.Errorf("a context made of it has %d goroutines", n-before)
						}
					}
					time.Sleep(c.after)
					if c.end != nil {
						c.end(cancel, d)
					}
					synctest.Wait()
					if !errors.Is(d.Err(), c.want) || d.Value(key{}) != 7 {
						t.Errorf("got %v with value %v, want %v", d.Err(), d.Value(key{}), c.want)
					}
					if asked && !errors.Is(child.Err(), c.want) {
						t.Errorf("a context made of it: %v, want %v", child.Err(), c.want)
					}
					select {
					case <-d.Done():
						if c.want == nil {
							t.Error("it has ended")
						}
					default:
						if c.want != nil {
							t.Error("its channel is open")
						}
					}
				})
			})
		}
	}
}

// TestSharedDeadline: callers that never leave share one for a short time; none of them can end
// it, and it leaves each at least 63/64 of the Timeout.
func TestSharedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Store{opts: Options{Timeout: 64 * time.Millisecond}}
		first := s.bound(context.Background())
		end(first)
		for range 1000 {
			time.Sleep(100 * time.Microsecond)
			d := s.bound(context.Background())
			at, _ := d.Deadline()
			if left := time.Until(at); left < 63*time.Millisecond || left > 64*time.Millisecond || d.Err() != nil {
				t.Fatalf("%v left, %v", left, d.Err())
			}
		}
		if same := s.bound(context.Background()); same != s.bound(context.Background()) {
			t.Error("two deadlines at one instant")
		}
		if !errors.Is(first.Err(), context.DeadlineExceeded) {
			t.Errorf("the first: %v", first.Err())
		}
	})
}
