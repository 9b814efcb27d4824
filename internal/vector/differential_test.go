// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package vector_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/vector"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
)

const calls = 20_000

// played is a profile's limits on a store, at random instants.
type played struct {
	*sluice.Limiter
	rnd *rand.Rand
	now time.Time
}

func play(t *testing.T, name string) *played {
	t.Helper()
	p, ok := profile.Get(name)
	if !ok {
		t.Fatalf("no profile %s", name)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	all := &played{rnd: rand.New(rand.NewPCG(seed, 1)), now: vector.Start}
	lim, err := sluice.New(memstore.New(memstore.Options{Now: func() time.Time { return all.now }}), name, p.Limits...)
	if err != nil {
		t.Fatal(err)
	}
	all.Limiter = lim
	return all
}

// rest lets a time of up to most pass, often none.
func (p *played) rest(most time.Duration) {
	if p.rnd.IntN(3) > 0 {
		micros := p.rnd.Int64N(p.rnd.Int64N(most.Microseconds()) + 1)
		p.now = p.now.Add(time.Duration(micros) * time.Microsecond)
	}
}

// cell is the arithmetic of redis-cell: it compares a theoretical arrival time, in ns, with a
// tolerance of the burst and one more request.
type cell struct {
	interval, tolerance time.Duration
	next                time.Time
}

func (c *cell) throttle(now time.Time, cost int64) (d sluice.Decision) {
	from := now
	if c.next.After(now) {
		from = c.next
	}
	next := from.Add(time.Duration(cost) * c.interval)
	if late := next.Add(-c.tolerance).Sub(now); late > 0 {
		if d.RetryAfter = late; time.Duration(cost)*c.interval > c.tolerance {
			d.RetryAfter, d.TooLarge = sluice.MaxRetryAfter, true
		}
		d.ResetAfter = max(c.next.Sub(now), 0)
	} else {
		d.Allowed, c.next = true, next
		d.ResetAfter = next.Sub(now)
	}
	d.Remaining = int64((c.tolerance - d.ResetAfter) / c.interval)
	return d
}

// TestDifferentialRedisCell compares decisions with those of redis-cell.
func TestDifferentialRedisCell(t *testing.T) {
	p, denied := play(t, "redis-cell"), 0
	c := cell{interval: 2 * time.Second, tolerance: 32 * time.Second}
	for i := range calls {
		p.rest(10 * time.Second)
		cost := p.rnd.Int64N(p.rnd.Int64N(18) + 1)
		got, err := p.Take(t.Context(), "k", cost)
		if err != nil {
			t.Fatal(err)
		}
		want := c.throttle(p.now, cost)
		if got.Allowed != want.Allowed || got.Remaining != want.Remaining || got.RetryAfter != want.RetryAfter || got.ResetAfter != want.ResetAfter {
			t.Fatalf("call %d, %d at %v: got %+v, want %+v", i+1, cost, p.now, got, want)
		}
		if !want.Allowed {
			denied++
		}
	}
	if denied < calls/10 || denied > calls*9/10 {
		t.Errorf("%d of %d calls were denied: the test is too weak", denied, calls)
	}
}

// sleeper is a limiter that makes its callers wait: it returns when the next may proceed.
type sleeper interface {
	grant(now time.Time, cost int64) time.Time
}

// uber is the arithmetic of uber-go/ratelimit.
type uber struct {
	every, slack time.Duration
	last         time.Time
}

func (u *uber) grant(now time.Time, _ int64) time.Time {
	switch idle := now.Sub(u.last); {
	case u.last.IsZero(), u.slack == 0 && idle > u.every:
		u.last = now
	case u.slack > 0 && idle > u.slack+u.every:
		u.last = now.Add(-u.slack)
	default:
		u.last = u.last.Add(u.every)
	}
	return u.last
}

// bursty is the arithmetic of Guava's SmoothBursty; it keeps permits as the time that they
// last.
type bursty struct {
	every, most, stored time.Duration
	next                time.Time
}

func (b *bursty) grant(now time.Time, cost int64) time.Time {
	if b.next.IsZero() {
		b.next = now
	}
	if rest := now.Sub(b.next); rest > 0 {
		b.stored, b.next = min(b.most, b.stored+rest), now
	}
	at, whole := b.next, time.Duration(cost)*b.every
	spent := min(whole, b.stored)
	b.stored -= spent
	b.next = b.next.Add(whole - spent)
	return at
}

// TestDifferentialWaits compares the waits of callers with those that uber-go and Guava
// compute, whether callers wait or others come meanwhile.
func TestDifferentialWaits(t *testing.T) {
	for name, of := range map[string]struct {
		every time.Duration
		most  int64 // units of a call
		sleeper
	}{
		"uber-go":               {10 * time.Millisecond, 1, &uber{every: 10 * time.Millisecond, slack: 100 * time.Millisecond}},
		"uber-go-without-slack": {10 * time.Millisecond, 1, &uber{every: 10 * time.Millisecond}},
		"guava-bursty":          {200 * time.Millisecond, 100, &bursty{every: 200 * time.Millisecond, most: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			p, waited := play(t, name), 0
			for i := range calls {
				if p.rest(3 * of.every); p.rnd.IntN(200) == 0 {
					p.rest(100 * of.every)
				}
				cost := int64(1)
				if p.rnd.IntN(20) == 0 {
					cost += p.rnd.Int64N(of.most)
				}
				got, err := p.Reserve(t.Context(), "k", cost, sluice.MaxWait)
				if err != nil {
					t.Fatal(err)
				}
				want := max(of.grant(p.now, cost).Sub(p.now), 0)
				if !got.Allowed || got.Delay != want {
					t.Fatalf("call %d at %v: got %v, %v, want %v", i+1, p.now, got.Allowed, got.Delay, want)
				}
				if want > 0 {
					waited++
				}
				if p.rnd.IntN(4) > 0 {
					p.now = p.now.Add(want) // it waits
				}
			}
			if waited < calls/10 || waited > calls*9/10 {
				t.Errorf("%d of %d calls waited: the test is too weak", waited, calls)
			}
		})
	}
}
