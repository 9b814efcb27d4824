// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// smoothWarmingUp is Guava's RateLimiter of that name (33.4), with the same arithmetic: it
// stores permits while there are no calls, and they cost more above the threshold.
type smoothWarmingUp struct {
	interval, threshold, most, slope float64 // µs, permits, permits, µs a permit
	stored                           float64
	next                             int64
}

func newSmoothWarmingUp(perSecond float64, warmUp time.Duration, now int64) *smoothWarmingUp {
	g := &smoothWarmingUp{interval: 1e6 / perSecond, next: now}
	period := float64(warmUp.Microseconds())
	cold := 3 * g.interval
	g.threshold = 0.5 * period / g.interval
	g.most = g.threshold + 2*period/(g.interval+cold)
	g.slope = (cold - g.interval) / (g.most - g.threshold)
	g.stored = g.most
	return g
}

// reserve returns the wait of a call for permits.
func (g *smoothWarmingUp) reserve(now int64, permits float64) int64 {
	if now > g.next {
		g.stored = min(g.most, g.stored+float64(now-g.next)/g.interval) // a cool-down as long as the interval
		g.next = now
	}
	wait := g.next - now
	spend := min(permits, g.stored)
	g.next += g.storedTime(spend) + int64((permits-spend)*g.interval)
	g.stored -= spend
	return wait
}

func (g *smoothWarmingUp) storedTime(permits float64) (micros int64) {
	if above := g.stored - g.threshold; above > 0 {
		n := min(above, permits)
		length := g.interval + above*g.slope + g.interval + (above-n)*g.slope
		micros = int64(n * length / 2)
		permits -= n
	}
	return micros + int64(g.interval*permits)
}

// TestWarmUpIsGuavas: a reservation on a real server waits as long as a call of Guava, except
// for Guava's rounding in each call.
func TestWarmUpIsGuavas(t *testing.T) {
	const tolerance = 4
	calls := testkit.Steps(3500, 20_000)
	server := redistest.Shared(t, redistest.Redis(t))
	s := clocked(t, server, "guava")
	rnd := rand.New(rand.NewPCG(33, 4))
	for i, c := range []struct {
		limit   string
		perSec  float64
		warmUp  time.Duration
		permits int64
	}{
		{"2/s warm-up 4s", 2, 4 * time.Second, 1},
		{"1000/s warm-up 6001us", 1000, 6001 * time.Microsecond, 1},
		{"10/s warm-up 777777us", 10, 777777 * time.Microsecond, 1},
		{"10/s warm-up 1s debt 2 next-waits", 10, time.Second, 3},
		{"1/10min warm-up 1h", 1. / 600, time.Hour, 1},
	} {
		t.Run(c.limit, func(t *testing.T) {
			plan := testkit.Plan(t, fmt.Sprint("guava", i), c.limit)
			now := int64(1_790_000_000_000_000)
			g := newSmoothWarmingUp(c.perSec, c.warmUp, now)
			unit := int64(g.interval) * c.permits
			var waited, idle int
			for n := range calls / 5 {
				s.Set(now)
				d, err := s.Take(t.Context(), sluice.Request{
					Op: sluice.OpReserve, MaxWait: sluice.MaxWait, Charge: sluice.Charge{Plan: plan, Key: "k", Cost: c.permits},
				})
				if err != nil {
					t.Fatal(err)
				}
				want := g.reserve(now, float64(c.permits))
				if got := d.Delay.Microseconds(); !d.Allowed || max(got-want, want-got) > tolerance {
					t.Fatalf("call %d at %d: got %+v, want a delay of %d µs", n, now, d, want)
				}
				switch {
				case want > 0:
					waited++
				case g.stored > g.threshold:
					idle++
				}
				if now += rnd.Int64N(3 * unit); g.next-now > 4*unit || rnd.IntN(20) == 0 {
					now = max(now, g.next) + rnd.Int64N(c.warmUp.Microseconds())
				}
			}
			if waited < calls/200 || idle < calls/200 {
				t.Errorf("of %d calls %d waited and %d found a cold key: the test is too weak", calls/5, waited, idle)
			}
		})
	}
}
