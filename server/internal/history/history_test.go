// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/history"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// TestHistory compares with a plain list of counts: each step has its counts, none is lost or
// doubled, with any pauses in between.
func TestHistory(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		fine, coarse := history.Span{Step: 5 * time.Second, Steps: 12}, history.Span{Step: time.Minute, Steps: 7}
		h := history.New(fine, coarse, history.Counts{})
		var total history.Counts
		added := make(map[time.Time]history.Counts)
		now := noon.Add(time.Duration(random.IntN(100)) * time.Second)
		for range 500 {
			n := history.Counts{Allowed: random.Uint64N(5), Denied: random.Uint64N(2), Delayed: random.Uint64N(2)}
			total = total.Plus(n)
			h.Record(now, total)
			added[now] = added[now].Plus(n)
			for at, series := range map[history.Span]history.Series{fine: h.Fine(), coarse: h.Coarse()} {
				var want history.Counts
				for when, n := range added {
					if !when.Before(series.From) {
						want = want.Plus(n)
					}
				}
				if got := series.Sum(); got != want {
					t.Fatalf("seed %d, step %v: got %+v, want %+v", seed, at.Step, got, want)
				}
				if end := series.From.Add(time.Duration(series.Steps) * at.Step); now.Before(series.From) || !now.Before(end) || series.Steps > at.Steps || series.Step != int(at.Step/time.Second) {
					t.Fatalf("seed %d: %d steps from %v, and it is %v", seed, series.Steps, series.From, now)
				}
			}
			switch random.IntN(20) {
			case 0:
				now = now.Add(time.Duration(random.IntN(600)) * time.Second)
			case 1: // at once
			default:
				now = now.Add(time.Duration(1+random.IntN(3)) * time.Second)
			}
		}
	}
}

// TestHistorySteps: the counts of a second are in its step and in no other.
func TestHistorySteps(t *testing.T) {
	h := history.New(history.Span{Step: time.Second, Steps: 4}, history.Span{Step: time.Minute, Steps: 2}, history.Counts{Warned: 7})
	h.Record(noon, history.Counts{Allowed: 3})
	h.Record(noon.Add(2*time.Second), history.Counts{Allowed: 4, Denied: 2})
	h.Record(noon.Add(time.Second), history.Counts{Allowed: 5, Denied: 2}) // a clock that stepped back
	s := h.Fine()
	if s.Steps != 3 || !s.From.Equal(noon) || s.Allowed[0] != 3 || s.Allowed[1] != 0 || s.Allowed[2] != 2 || s.Denied[2] != 2 || s.Warned != nil {
		t.Errorf("got %+v", s)
	}
	h.Record(noon.Add(5*time.Second), history.Counts{Allowed: 1}) // a part of the counters is gone
	h.Record(noon.Add(5*time.Second), history.Counts{Allowed: 2})
	if s = h.Fine(); s.Steps != 4 || !s.From.Equal(noon.Add(2*time.Second)) || s.Allowed[0] != 2 || s.Allowed[3] != 1 {
		t.Errorf("got %+v", s)
	}
	h.Record(noon.Add(time.Hour), history.Counts{Allowed: 4 + math.MaxUint32})
	h.Record(noon.Add(time.Hour), history.Counts{Allowed: 5 + math.MaxUint32})
	if s = h.Fine(); s.Sum() != (history.Counts{Allowed: math.MaxUint32}) {
		t.Errorf("got %+v, want as many as fit", s)
	}
}
