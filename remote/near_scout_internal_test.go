// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// gated is a store whose answers wait for a gate. It may lose the first answer.
type gated struct {
	sluice.Store
	asked atomic.Int64
	gate  chan struct{}
	first error
}

func (g *gated) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	n := g.asked.Add(1)
	d, err := g.Store.Take(ctx, req)
	<-g.gate
	if n == 1 && g.first != nil {
		return sluice.Decision{}, g.first
	}
	return d, err
}

type answer struct {
	d   sluice.Decision
	err error
}

// pressed returns a cache with a denial that ended during a rest, of a key with five units a
// second. The store behind it holds its answers back.
func pressed(t *testing.T, rest time.Duration, first error) (*nearStore, *gated, *sluice.Plan) {
	t.Helper()
	p := testkit.Plan(t, "api", "5/s")
	open := make(chan struct{})
	close(open)
	g := &gated{Store: memstore.New(memstore.Options{}), gate: open}
	cache := newNearStore(g, Options{})
	if d := testkit.Take(t, cache, testkit.Request(p, "k", 5)); !d.Allowed || d.Remaining != 0 {
		t.Fatalf("spending all: %+v", d)
	}
	if d := testkit.Take(t, cache, testkit.Request(p, "k", 1)); d.Allowed || g.asked.Load() != 1 {
		t.Fatalf("one more: %+v, by %d calls; want it denied from memory", d, g.asked.Load())
	}
	time.Sleep(rest)
	g.asked.Store(0)
	g.gate, g.first = make(chan struct{}), first
	return cache, g, p
}

// send sends n takes of one unit, one after the other.
func send(ctx context.Context, cache *nearStore, p *sluice.Plan, n int) <-chan answer {
	answers := make(chan answer, n)
	for range n {
		go func() {
			d, err := cache.Take(ctx, testkit.Request(p, "k", 1))
			answers <- answer{d, err}
		}()
		synctest.Wait()
	}
	return answers
}

// TestOneAsks: when a unit has come back one take asks for it, and its answer decides the
// others.
func TestOneAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, g, p := pressed(t, 200*time.Millisecond, nil)
		answers := send(t.Context(), cache, p, 10)
		if n := g.asked.Load(); n != 1 {
			t.Errorf("%d takes ask the store, want 1", n)
		}
		close(g.gate)
		synctest.Wait()
		want := testkit.Take(t, g.Store, testkit.Request(p, "k", 1))
		allowed := 0
		for range 10 {
			a := <-answers
			switch {
			case a.err != nil:
				t.Error(a.err)
			case a.d.Allowed:
				allowed++
			case a.d != want:
				t.Errorf("got %+v, want %+v, as the store says", a.d, want)
			}
		}
		if allowed != 1 || g.asked.Load() != 1 {
			t.Errorf("%d allowed by %d calls, want 1 by 1", allowed, g.asked.Load())
		}
	})
}

// TestWaiterWithoutAnswerAsks: where that answer does not decide them, the takes that have
// waited ask, each once.
func TestWaiterWithoutAnswerAsks(t *testing.T) {
	lost := errors.New("connection lost")
	for _, c := range []struct {
		name          string
		rest          time.Duration
		first         error
		asked, allows int64
	}{
		{"more units have come back", 600 * time.Millisecond, nil, 5, 3},
		{"the answer is lost", 200 * time.Millisecond, lost, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, g, p := pressed(t, c.rest, c.first)
				answers := send(t.Context(), cache, p, 5)
				if n := g.asked.Load(); n != 1 {
					t.Errorf("%d takes ask the store at first, want 1", n)
				}
				close(g.gate)
				allowed, failed := int64(0), 0
				for range 5 {
					a := <-answers
					switch {
					case a.err != nil && errors.Is(a.err, c.first):
						failed++
					case a.err != nil:
						t.Error(a.err)
					case a.d.Allowed:
						allowed++
					}
				}
				if want := c.first != nil; want != (failed == 1) {
					t.Errorf("%d takes failed, want that the first did: %v", failed, want)
				}
				if n := g.asked.Load(); n > c.asked || allowed != c.allows {
					t.Errorf("%d allowed by %d calls, want %d by at most %d", allowed, n, c.allows, c.asked)
				}
			})
		})
	}
}

// TestWhoWaitsMayLeave: a take that waits for another's answer ends with its context, without
// effect on the other.
func TestWhoWaitsMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cache, g, p := pressed(t, 200*time.Millisecond, nil)
		answers := send(ctx, cache, p, 3)
		cancel()
		synctest.Wait()
		for range 2 {
			if a := <-answers; !errors.Is(a.err, context.Canceled) {
				t.Errorf("who waits: got %+v, %v, want %v", a.d, a.err, context.Canceled)
			}
		}
		close(g.gate)
		if a := <-answers; a.err != nil || !a.d.Allowed {
			t.Errorf("who asked: got %+v, %v, want it allowed", a.d, a.err)
		}
	})
}
