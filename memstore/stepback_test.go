// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// steppable are limits of every algorithm, with the longest wait of a key that had units left
// when the clock stepped back.
var steppable = []struct {
	limit string
	waits time.Duration
}{
	{"5/min", time.Minute},
	{"5/min burst 10", 2 * time.Minute},
	{"5/min burst 5 credit 10 credit-for 10m", time.Minute},
	{"5/min debt 20", 5 * time.Minute},
	{"7/min", time.Minute},
	{"5/min interval-refill", time.Minute},
	{"5/min aligned-refill", time.Minute},
	{"5/min leaky-bucket burst 5", time.Minute},
	{"5/min leaky-bucket burst 5 nodelay", time.Minute},
	{"5/min burst 10 warm-up 30s", 135 * time.Second},
	{"5/min fixed-window", time.Minute},
	{"5/min fixed-window debt 20", time.Minute},
	{"5/min fixed-window anchor first", time.Minute},
	{"5/day calendar Asia/Seoul", 24 * time.Hour},
	{"5/min sliding-log", time.Minute},
	{"5/min sliding-histogram precision 3", time.Minute},
	{"5/min sliding-counter", time.Minute},
	{"5/min sliding-counter strict", time.Minute},
	{"5/min sliding-counter conservative", time.Minute},
	{"5/min sliding-counter sub-windows 6", time.Minute},
}

// TestClockBackWithUnitsLeft: a key that has units left when the clock of Options.Now steps back
// waits no longer than a window, or until its largest debt is paid, and no longer than
// RetryAfter.
func TestClockBackWithUnitsLeft(t *testing.T) {
	t.Parallel()
	for _, tt := range steppable {
		for _, back := range []time.Duration{time.Millisecond, time.Second, 59 * time.Minute, 61 * time.Minute, 40 * 24 * time.Hour} {
			for _, spent := range []int{1, 4} {
				clock := testkit.NewClock()
				lim := testkit.Limiter(t, memstore.New(memstore.Options{Now: clock.Now}), "s", tt.limit)
				for range spent {
					if d, err := lim.Take(t.Context(), "k", 1); err != nil || !d.Allowed {
						t.Fatalf("%s: got %+v, %v", tt.limit, d, err)
					}
				}
				clock.Advance(-back)
				waited := time.Duration(0)
				for {
					d, err := lim.Take(t.Context(), "k", 1)
					if err != nil {
						t.Fatal(err)
					}
					if d.Allowed {
						break
					}
					clock.Advance(d.RetryAfter)
					if waited += d.RetryAfter; waited > tt.waits {
						t.Errorf("%s, %d spent, %v back: denied for %v, want %v at most", tt.limit, spent, back, waited, tt.waits)
						break
					}
				}
			}
		}
	}
}

// TestSnapshotOfAClockAhead: a snapshot from a machine whose clock was ahead has the effect
// of a clock that stepped back.
func TestSnapshotOfAClockAhead(t *testing.T) {
	t.Parallel()
	for _, tt := range steppable {
		ahead, clock := testkit.NewClock(), testkit.NewClock()
		ahead.Advance(59 * time.Minute)
		before := memstore.New(memstore.Options{Now: ahead.Now})
		lim := testkit.Limiter(t, before, "s", tt.limit)
		if d, err := lim.Take(t.Context(), "k", 1); err != nil || !d.Allowed {
			t.Fatalf("%s: got %+v, %v", tt.limit, d, err)
		}
		var buf bytes.Buffer
		if err := before.Snapshot(&buf); err != nil {
			t.Fatal(err)
		}
		s := memstore.New(memstore.Options{Now: clock.Now})
		if err := s.Restore(&buf); err != nil {
			t.Fatal(err)
		}
		lim = testkit.Limiter(t, s, "s", tt.limit)
		d, err := lim.Take(t.Context(), "k", 1)
		if err != nil || d.RetryAfter > tt.waits {
			t.Errorf("%s: got %+v, %v, want a denial for %v at most", tt.limit, d, err, tt.waits)
		}
	}
}

// TestLateClockReading: a caller that decides after one that has read the clock later finds
// a state ahead of its instant. No clock stepped back, so no units come back.
func TestLateClockReading(t *testing.T) {
	t.Parallel()
	for _, tt := range steppable {
		if tt.waits > time.Hour {
			continue
		}
		clock, late := testkit.NewClock(), time.Duration(0)
		now := func() time.Time {
			at := clock.Now().Add(-late)
			late = 0 // only once
			return at
		}
		s := memstore.New(memstore.Options{Now: now})
		lim := testkit.Limiter(t, s, "s", tt.limit)
		for {
			d, err := lim.Take(t.Context(), "k", 1)
			if err != nil {
				t.Fatal(err)
			}
			if !d.Allowed {
				break
			}
		}
		want, err := lim.Peek(t.Context(), "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range []time.Duration{time.Millisecond, time.Second, 59 * time.Second, 10 * time.Minute} {
			late = by
			if d, err := lim.Take(t.Context(), "k", 1); err != nil || d.Allowed {
				t.Errorf("%s, %v late: got %+v, %v, want a denial", tt.limit, by, d, err)
			}
			late = by
			if _, err := s.Take(t.Context(), sluice.Request{Op: sluice.OpTakeUpTo, Charge: sluice.Charge{Plan: lim.Plan(), Key: "k", Cost: 1}}); err != nil {
				t.Fatal(err)
			}
			if got, err := lim.Peek(t.Context(), "k", 1); err != nil || got != want {
				t.Errorf("%s, %v late: then a peek says %+v, %v, want %+v as before", tt.limit, by, got, err, want)
			}
		}
	}
}
