// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/profile"
	"go.uber.org/ratelimit"
)

// setClock is a clock of uber-go's that its Sleep puts on.
type setClock struct{ now time.Time }

func (c *setClock) Now() time.Time        { return c.now }
func (c *setClock) Sleep(d time.Duration) { c.now = c.now.Add(d) }

// TestUberGo compares the profiles of uber-go with uber-go itself, at random
// instants: a Take there waits as long as a reservation here says.
func TestUberGo(t *testing.T) {
	for name, options := range map[string][]ratelimit.Option{"uber-go": nil, "uber-go-without-slack": {ratelimit.WithoutSlack}} {
		t.Run(name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 1))
			p, _ := profile.Get(name)
			clock := &setClock{now: profile.Start}
			theirs := ratelimit.New(100, append(options, ratelimit.WithClock(clock))...)
			var now time.Time
			lim, err := sluice.New(memstore.New(memstore.Options{Now: func() time.Time { return now }}), name, p.Limits...)
			if err != nil {
				t.Fatal(err)
			}
			const calls = 20_000
			waited := 0
			for i := range calls {
				rest := rnd.Int64N(rnd.Int64N(26_000) + 1)
				if rnd.IntN(100) == 0 {
					rest *= 100
				}
				clock.now = clock.now.Add(time.Duration(rest) * time.Microsecond)
				now = clock.now
				got, err := lim.Reserve(t.Context(), "k", 1, sluice.MaxWait)
				if err != nil {
					t.Fatal(err)
				}
				theirs.Take()
				if want := clock.now.Sub(now); !got.Allowed || got.Delay != want {
					t.Fatalf("call %d at %v: got %v, %v, want %v", i+1, now, got.Allowed, got.Delay, want)
				} else if want > 0 {
					waited++
				}
			}
			if waited < calls/10 || waited > calls*9/10 {
				t.Errorf("%d of %d calls waited: the test is too weak", waited, calls)
			}
		})
	}
}
