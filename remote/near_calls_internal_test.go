// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// late is a store that decides at once but answers only when the test lets the answer through,
// as if it were long on its way.
type late struct {
	sluice.Store
	mu   sync.Mutex
	wait map[string]chan struct{} // by the request's first key and operation
}

func name(req *sluice.Request) string { return fmt.Sprint(req.Op, " ", req.Cost) }

func (l *late) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	l.mu.Lock()
	wait := l.wait[name(&req)]
	l.mu.Unlock()
	d, err := l.Store.Take(ctx, req)
	if wait != nil {
		<-wait
	}
	return d, err
}

// TestAnswersThatOvertake: a denial decided before a refund is not remembered after it,
// whatever the order of their answers is.
func TestAnswersThatOvertake(t *testing.T) {
	for _, c := range []struct {
		name string
		undo func(p *sluice.Plan, d sluice.Decision) sluice.Request
	}{
		{"refund", func(p *sluice.Plan, d sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 2}, At: d.At}
		}},
		{"reset", func(p *sluice.Plan, _ sluice.Decision) sluice.Request {
			return sluice.Request{Op: sluice.OpReset, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 2}}
		}},
	} {
		for _, order := range [][]string{{"take 1", "undo"}, {"undo", "take 1"}} {
			t.Run(c.name+" "+order[0]+" first", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := testkit.Plan(t, "api", "2/h")
					store := &late{Store: memstore.New(memstore.Options{})}
					cache := newNearStore(store, Options{})
					d := testkit.Take(t, store, testkit.Request(p, "k", 2))
					undo := c.undo(p, d)
					gates := map[string]chan struct{}{"take 1": make(chan struct{}), "undo": make(chan struct{})}
					store.wait = map[string]chan struct{}{"take 1": gates["take 1"], name(&undo): gates["undo"]}
					errs := make(chan error, 2)
					for _, req := range []sluice.Request{testkit.Request(p, "k", 1), undo} {
						go func() {
							_, err := cache.Take(t.Context(), req)
							errs <- err
						}()
						synctest.Wait() // decided, its answer on the way
					}
					store.mu.Lock()
					store.wait = nil
					store.mu.Unlock()
					for _, gate := range order {
						close(gates[gate])
						synctest.Wait()
						if err := <-errs; err != nil {
							t.Fatal(err)
						}
						// The store has given the units back: one fits, and is
						// taken to see that.
						if d := testkit.Take(t, cache, testkit.Request(p, "k", 1)); !d.Allowed {
							t.Errorf("after the answer to %s: %+v, want it allowed", gate, d)
						}
					}
				})
			})
		}
	}
}

// TestChangedLimitInFlight: a denial is not remembered if its limits are replaced meanwhile.
func TestChangedLimitInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		narrow, wide := testkit.Plan(t, "api", "x: 1/h"), testkit.Plan(t, "api", "x: 9/s")
		store := &late{Store: memstore.New(memstore.Options{})}
		cache := newNearStore(store, Options{})
		testkit.Take(t, cache, testkit.Request(narrow, "k", 1))
		testkit.Take(t, cache, testkit.Request(wide, "k", 0)) // forgets the denial of the first
		testkit.Take(t, store, testkit.Request(narrow, "k", 1))
		gate := make(chan struct{})
		store.wait = map[string]chan struct{}{"take 1": gate}
		done := make(chan error, 1)
		go func() {
			_, err := cache.Take(t.Context(), testkit.Request(narrow, "k", 1))
			done <- err
		}()
		synctest.Wait()
		testkit.Take(t, cache, testkit.Request(wide, "k", 9)) // overtakes, and carries the state over
		close(gate)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		before := cache.denials().Answered
		store.mu.Lock()
		store.wait = nil
		store.mu.Unlock()
		testkit.Take(t, cache, testkit.Request(narrow, "k", 1))
		if got := cache.denials().Answered; got != before {
			t.Errorf("%d requests answered from memory, want the store asked", got-before)
		}
	})
}

// TestDenialBesideAChangedLimit: a denial is not remembered if a take under other limits was
// on its way at the same time, whatever the order of their answers is: the take may have
// carried the state over to its limits after the denial.
func TestDenialBesideAChangedLimit(t *testing.T) {
	for _, order := range [][]string{{"take 1", "take 9"}, {"take 9", "take 1"}} {
		synctest.Test(t, func(t *testing.T) {
			narrow, wide := testkit.Plan(t, "api", "x: 1/h"), testkit.Plan(t, "api", "x: 9/h")
			store := &late{Store: memstore.New(memstore.Options{})}
			cache := newNearStore(store, Options{})
			gates := map[string]chan struct{}{"take 9": make(chan struct{}), "take 1": make(chan struct{})}
			store.wait = gates
			var wg sync.WaitGroup
			for _, req := range []sluice.Request{testkit.Request(wide, "k", 9), testkit.Request(narrow, "k", 1), testkit.Request(narrow, "k", 1)} {
				wg.Go(func() {
					if d := testkit.Take(t, cache, req); d.Allowed != (req.Cost == 9) {
						t.Errorf("%d: %+v", req.Cost, d)
					}
				})
				synctest.Wait()
			}
			for _, gate := range order {
				close(gates[gate])
				synctest.Wait()
			}
			wg.Wait()
			if st := cache.denials(); st.Answered+st.Remembered > 0 {
				t.Errorf("%v: %+v: want nothing remembered", order, st)
			}
		})
	}
}

// TestOlderDenial: of two denials of one cost the one decided later counts, whatever the order
// of their answers is.
func TestOlderDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := testkit.Plan(t, "api", "10/s sliding-log")
		store := &late{Store: memstore.New(memstore.Options{})}
		cache := newNearStore(store, Options{})
		testkit.Take(t, cache, testkit.Request(p, "k", 5))
		time.Sleep(100 * time.Millisecond)
		testkit.Take(t, cache, testkit.Request(p, "k", 4))
		gate := make(chan struct{})
		store.wait = map[string]chan struct{}{"take 6": gate}
		done := make(chan error, 1)
		go func() {
			_, err := cache.Take(t.Context(), testkit.Request(p, "k", 6)) // fits when the first 5 are gone
			done <- err
		}()
		synctest.Wait()
		store.mu.Lock()
		store.wait = nil
		store.mu.Unlock()
		testkit.Take(t, cache, testkit.Request(p, "k", 1)) // now 6 fit only when the next 4 are gone too
		want := testkit.Take(t, cache, testkit.Request(p, "k", 6))
		close(gate)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		before := cache.denials().Answered
		if got := testkit.Take(t, cache, testkit.Request(p, "k", 6)); got != want || cache.denials().Answered == before {
			t.Errorf("got %+v, want %+v from memory", got, want)
		}
	})
}

var errLost = errors.New("connection lost")

// TestLostAnswers: a lost answer leaves no trace, and the store decides the next take.
func TestLostAnswers(t *testing.T) {
	clock := testkit.NewClock()
	rnd := rand.New(rand.NewPCG(1, 2))
	store := &testkit.Store{Store: memstore.New(memstore.Options{Now: clock.Now})}
	store.After = func(sluice.Request, sluice.Result) error {
		if rnd.IntN(2) == 0 {
			return errLost
		}
		return nil
	}
	cache := newNearStore(store, Options{Now: clock.Now})
	p := testkit.Plan(t, "api", "10/s")
	lost, wrong := 0, 0
	for range 10_000 {
		before := cache.denials().Answered
		d, err := cache.Take(t.Context(), testkit.Request(p, "k", 1))
		switch {
		case errors.Is(err, errLost):
			lost++
		case err != nil:
			t.Fatal(err)
		case cache.denials().Answered > before:
			if testkit.Take(t, store.Store, sluice.Request{Op: sluice.OpPeek, Charge: sluice.Charge{Plan: p, Key: "k", Cost: 1}}).Allowed {
				wrong++
			}
		case d.RetryAfter > 100*time.Millisecond:
			t.Fatalf("%+v", d)
		}
		clock.Advance(5 * time.Millisecond)
	}
	if lost == 0 || wrong > 0 || cache.denials().Answered == 0 {
		t.Errorf("%d answers lost, %d answers from memory, %d of them wrong", lost, cache.denials().Answered, wrong)
	}
}

// TestConcurrent mixes all operations from many goroutines, for the race detector, and checks
// that no unit is admitted beyond the limit.
func TestConcurrent(t *testing.T) {
	clock := testkit.NewClock()
	cache := newNearStore(memstore.New(memstore.Options{Now: clock.Now}), Options{Now: clock.Now, MaxKeys: 8})
	p := testkit.Plan(t, "api", "100/h")
	var wg sync.WaitGroup
	var mu sync.Mutex
	held := map[string]int64{}
	for g := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(g), 1))
			for range 3_000 {
				key := fmt.Sprint(rnd.IntN(4))
				d, err := cache.Take(context.Background(), testkit.Request(p, key, 1))
				if err != nil {
					t.Error(err)
					return
				}
				if !d.Allowed {
					continue
				}
				mu.Lock()
				if held[key]++; held[key] > 100 {
					t.Errorf("key %s: %d units held of 100", key, held[key])
				}
				mu.Unlock()
				if rnd.IntN(2) == 0 {
					mu.Lock()
					held[key]--
					mu.Unlock()
					if _, err := cache.Take(context.Background(), sluice.Request{Op: sluice.OpRefund, Charge: sluice.Charge{Plan: p, Key: key, Cost: 1}, At: d.At}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	// All units that are free fit, and no other does.
	for key, n := range held {
		if d := testkit.Take(t, cache, testkit.Request(p, key, 101-n)); d.Allowed {
			t.Errorf("key %s: %d more fit beside %d", key, 101-n, n)
		}
		if d := testkit.Take(t, cache, testkit.Request(p, key, 100-n)); !d.Allowed {
			t.Errorf("key %s: %+v, want the %d left to fit", key, d, 100-n)
		}
	}
}
