// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// heard is a store that records the first call after its repair.
type heard struct {
	*faulty
	mended, asked time.Time
}

func (h *heard) note() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.mended.IsZero() && h.asked.IsZero() {
		h.asked = time.Now()
	}
}

func (h *heard) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	h.note()
	return h.faulty.Take(ctx, req)
}

func (h *heard) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	h.note()
	return h.faulty.TakeBatch(ctx, reqs, out)
}

// TestInvariant22Recovery: whenever a store returns, even just before or after a probe, it is
// called within a Probe and gets all requests within a Probe, a Timeout and 0.2 s: by
// default 0.8 s.
func TestInvariant22Recovery(t *testing.T) {
	const (
		again = bounds.DefaultProbe + bounds.DefaultTimeout + 10*time.Millisecond
		back  = bounds.DefaultProbe + bounds.DefaultTimeout + 200*time.Millisecond
	)
	for _, fault := range []fault{erring, hung, lost, late, deaf} {
		for _, c := range []struct {
			name string
			gap  time.Duration // between requests; 0: no requests
			owed int           // keys that owe units on the return
		}{{"no requests", 0, 0}, {"requests", 3 * time.Millisecond, 0}, {"owed units", 0, 300}} {
			t.Run(string(fault)+", "+c.name, func(t *testing.T) {
				var worst, longest time.Duration
				step := 2 * bounds.DefaultProbe / time.Duration(testkit.Steps(14, 143))
				for phase := time.Duration(0); phase < 2*bounds.DefaultProbe; phase += step {
					synctest.Test(t, func(t *testing.T) {
						first, healthy := recovery(t, fault, phase, c.gap, c.owed)
						worst, longest = max(worst, first), max(longest, healthy)
					})
				}
				if worst > again {
					t.Errorf("asked again after %v, want at most %v", worst, again)
				}
				if longest > back {
					t.Errorf("healthy after %v, want at most %v", longest, back)
				}
				// A late answer to a probe reports the return at once.
				if longest < bounds.DefaultProbe/2 && fault != late {
					t.Errorf("healthy after %v at the latest: the store never returned just after it was tried", longest)
				}
				t.Logf("asked again after at most %v, healthy after at most %v", worst, longest)
			})
		}
	}
}

// recovery makes a store unavailable for some time and returns how long after its return it
// was called, and got all requests.
func recovery(t *testing.T, fault fault, phase, gap time.Duration, owed int) (asked, healthy time.Duration) {
	t.Helper()
	h := &heard{faulty: newFaulty()}
	s := wrap(t, h, remote.Options{Policy: sluice.FailLocal})
	bring(t, h.faulty, s, fault)
	p := testkit.Plan(t, "api", "1000000/h")
	for i := range owed {
		testkit.Take(t, s, testkit.Request(p, string(rune('a'+i)), 1))
	}
	time.Sleep(bounds.DefaultProbe + phase)
	ctx, cancel := context.WithCancel(t.Context())
	if gap > 0 {
		go func() {
			for ctx.Err() == nil {
				testkit.Take(t, s, testkit.Request(p, "k", 1)) //nolint:contextcheck // requests that have begun are not cut off
				time.Sleep(gap)
			}
		}()
	}
	h.mu.Lock()
	h.mended = time.Now()
	h.mu.Unlock()
	healthy = mend(t, h.faulty, s)
	cancel()
	if d := testkit.Take(t, s, testkit.Request(p, "k", 1)); d.Degraded {
		t.Errorf("healthy, but not asked: %+v", d)
	}
	end(t, h.faulty, s)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked.Sub(h.mended), healthy
}

// TestCause: in an outage Cause returns the store's last error, of a request or of a probe;
// before and after it returns nil.
func TestCause(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		var s *remote.Store
		reported := make(chan error, 8)
		s = wrap(t, f, remote.Options{OnChange: func(error) { reported <- s.Err() }})
		defer end(t, f, s)
		expect := func(when string, want error) {
			t.Helper()
			if got := s.Err(); !errors.Is(got, want) {
				t.Errorf("%s: got %v, want %v", when, got, want)
			}
		}
		expect("before", nil)
		bring(t, f, s, hung)
		if got := s.Err(); got == nil || !strings.Contains(got.Error(), "no answer in time") {
			t.Errorf("marked down: got %v", got)
		}
		f.set(erring)
		time.Sleep(3 * bounds.DefaultProbe) // no request comes
		expect("when it was tried", errBroken)
		mend(t, f, s)
		expect("afterwards", nil)
		bring(t, f, s, erring)
		expect("the next outage", errBroken)
		mend(t, f, s)
		for i, want := range []string{"no answer in time", "<nil>", errBroken.Error(), "<nil>"} {
			if got := fmt.Sprint(<-reported); !strings.Contains(got, want) {
				t.Errorf("OnChange, time %d: saw %s, want %s", i+1, got, want)
			}
		}
	})
}
