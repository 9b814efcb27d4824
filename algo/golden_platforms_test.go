// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/profile"
)

// accountStore is an account as a Store of one key, whose clock stands still.
type accountStore struct {
	*account
	now int64
}

func (s *accountStore) Take(_ context.Context, req sluice.Request) (sluice.Decision, error) {
	return s.do(s.now, req), nil
}

// TestGoldenPlatforms plays the documented examples of platforms.
func TestGoldenPlatforms(t *testing.T) {
	for _, p := range profile.All() {
		for _, v := range vector.Of(p.Name) {
			if v.InFlight > 0 {
				continue // of slots: every Store plays it
			}
			t.Run(p.Name+"/"+v.Name, func(t *testing.T) {
				s := &accountStore{account: open(t, v.Limits...)}
				if err := v.Play(t.Context(), s, func(now time.Time) { s.now = now.UnixMicro() }); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// TestGoldenWhole: RateLimitJ's rule of 10 s in blocks of 1 s, and the notes' counter
// of six blocks.
func TestGoldenWhole(t *testing.T) {
	for _, c := range []struct {
		name   string
		limits []sluice.Limit
		steps  []step
	}{
		{"ten blocks, the running one included", one(with(counter(10, 10*s, 10), whole)), []step{
			{500 * ms, take, 8, pass, 2, noRetry, 9*s + 500*ms, noDelay},
			{9 * s, take, 3, deny, 2, s, s, noDelay},
			{9 * s, take, 2, pass, 0, noRetry, 10 * s, noDelay},
			{10*s - 1, take, 1, deny, 0, 1, 9*s + 1, noDelay},
			{10 * s, take, 8, pass, 0, noRetry, 10 * s, noDelay},
		}},
		{"six blocks of 10 s: 70 used at 10:00:59, 51 at 10:01:05", one(with(counter(100, m, 6), whole)), []step{
			{5 * s, take, 20, pass, 80, noRetry, 55 * s, noDelay},
			{59 * s, take, 50, pass, 30, noRetry, 51 * s, noDelay},
			{65 * s, take, 1, pass, 49, noRetry, 55 * s, noDelay},
		}},
	} {
		t.Run(c.name, func(t *testing.T) { runTrace(t, c.limits, c.steps) })
	}
}

// TestGoldenAPIGatewayQuota: a quota's offset is subtracted only in the first period,
// at the first request.
func TestGoldenAPIGatewayQuota(t *testing.T) {
	for name, l := range map[string]sluice.Limit{
		"minutes": with(fixed(1000, m), deficit(600)),
		"days":    with(fixed(1000, 0), daily("UTC"), deficit(600)),
	} {
		t.Run(name, func(t *testing.T) {
			a := open(t, l)
			end := origin + m
			if testkit.Fixed(l).Calendar != sluice.NoCalendar {
				end = origin + 24*h
			}
			if d := a.upTo(origin+30*s, 1000); d.Spent != 400 {
				t.Errorf("in the first period got %d, want 400", d.Spent)
			}
			if d := a.take(end-1, 1); d.Allowed || d.RetryAfter != dur(1) {
				t.Errorf("at its end got %+v, want a denial for 1 µs", d)
			}
			b := open(t, l)
			b.start = origin // another key, of which nothing was seen before
			if d := b.peek(end-1, 1); d.Remaining != 400 || d.ResetAfter != dur(1) {
				t.Errorf("another key has %d left and %v to go, want 400 and 1 µs", d.Remaining, d.ResetAfter)
			}
			for _, at := range []int64{end, end + 40*24*h} {
				if d := a.upTo(at, 1001); d.Spent != 1000 {
					t.Errorf("at %d, in a later period, got %d, want 1000", at, d.Spent)
				}
			}
		})
	}
}
