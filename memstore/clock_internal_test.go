// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
)

func TestClockFollowsABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{})
		lim, err := sluice.New(s, "s", sluice.PerMinute(1))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			if d, err := lim.Take(t.Context(), "k", 1); err != nil || !d.Allowed || !d.At.Time().Equal(time.Now()) {
				t.Fatalf("minute %d: got %+v, %v, want allowed at %v", i, d, err, time.Now())
			}
			time.Sleep(time.Minute - time.Microsecond)
			if d, err := lim.Take(t.Context(), "k", 1); err != nil || d.Allowed || d.RetryAfter != time.Microsecond {
				t.Fatalf("minute %d, 1 µs early: got %+v, %v, want denied for 1 µs", i, d, err)
			}
			time.Sleep(time.Microsecond)
		}
		if d, err := lim.Wait(t.Context(), "w", 1); err != nil || d.Delay != 0 {
			t.Errorf("got %+v, %v, want no wait", d, err)
		}
		start := time.Now()
		if _, err := lim.Wait(t.Context(), "w", 1); err != nil || time.Since(start) != time.Minute {
			t.Errorf("got %v after %v, want no error after 1 minute", err, time.Since(start))
		}
	})
}

// TestClockFollowsTheWall moves the stored wall clock, which has the same effect as moving the
// real one the other way.
func TestClockFollowsTheWall(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		moved   time.Duration
		follows bool
	}{
		{"forward", time.Hour, true},
		{"back", -time.Hour, false},
		{"a few ms", 6 * time.Millisecond, true},
		{"a little", 4 * time.Millisecond, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var c clock
				c.init(nil)
				c.wall.Add(-tt.moved.Microseconds())
				time.Sleep(clockCheck - time.Microsecond)
				if got, want := c.now(), time.Now().Add(-tt.moved).UnixMicro(); got != want {
					t.Errorf("before it looks: got %d, want %d", got, want)
				}
				time.Sleep(time.Microsecond)
				want := time.Now()
				if !tt.follows {
					want = want.Add(-tt.moved)
				}
				for range 2 { // at the comparison and after it
					if got := c.now(); got != want.UnixMicro() {
						t.Errorf("got %d, want %d", got, want.UnixMicro())
					}
				}
			})
		})
	}
}

func TestClockIsNeverNegative(t *testing.T) {
	t.Parallel()
	var c clock
	c.init(func() time.Time { return time.Unix(-5, 0) })
	if got := c.now(); got != 0 {
		t.Errorf("got %d, want 0", got)
	}
}
