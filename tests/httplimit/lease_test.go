// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// faltering is a store whose slots are unavailable at times.
type faltering struct {
	*memstore.Store
	away atomic.Bool
}

func (s *faltering) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if s.away.Load() {
		return sluice.SlotDecision{}, errAway
	}
	return s.Store.Slot(ctx, req)
}

// crowd is a set of requests that run until they are ended.
type crowd struct {
	guard   *guard
	store   *faltering
	errors  errorList
	running sync.WaitGroup
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{store: &faltering{Store: memstore.New(memstore.Options{})}}
	c.guard = newGuard(t, "  - {name: a, by: ip, in_flight: {cap: 2, ttl: 3s}}\n", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}, httplimit.Options{Store: c.store, OnError: c.errors.report})
	return c
}

// run lets two requests in and returns a function that ends them.
func (c *crowd) run(t *testing.T) context.CancelFunc {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		r := requestOf(t, "GET", "/", "").WithContext(ctx)
		c.running.Go(func() {
			if w := answer(c.guard, r); w.Code != http.StatusOK {
				t.Errorf("got %d, want 200", w.Code)
			}
		})
	}
	synctest.Wait()
	return cancel
}

// outage makes the store fail for longer than the TTL.
func (c *crowd) outage() {
	c.store.away.Store(true)
	time.Sleep(4500 * time.Millisecond)
	c.store.away.Store(false)
}

// full reports whether no further request is admitted.
func (c *crowd) full(t *testing.T) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Microsecond)
	defer cancel()
	return answer(c.guard, requestOf(t, "GET", "/", "").WithContext(ctx)).Code == http.StatusTooManyRequests
}

func (c *crowd) expired() (n int) {
	for _, err := range c.errors.all() {
		if errors.Is(err, evaluate.ErrExpired) {
			n++
		}
	}
	return n
}

// TestSlotsAfterOutage: requests that have lost their slots in an outage longer than the TTL
// count again after it, and release their slots when they end.
func TestSlotsAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		end := c.run(t)
		c.outage()
		time.Sleep(time.Second) // a third of the TTL
		if !c.full(t) {
			t.Error("a third request runs beside the two that ran before the outage")
		}
		if n := c.expired(); n != 0 {
			t.Errorf("%d slots are said to be taken, which were free", n)
		}
		end()
		c.running.Wait()
		if c.full(t) {
			t.Error("no place after both have ended")
		}
	})
}

// TestSlotsTakenAfterOutage: requests whose slots others have taken count again as soon as
// these have ended.
func TestSlotsTakenAfterOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t)
		end := c.run(t)
		c.outage()
		endOthers := c.run(t) // before the first two have asked again
		time.Sleep(10 * time.Second)
		if n := c.expired(); n != 2 {
			t.Errorf("notified of %d lost slots, want 2, once each", n)
		}
		endOthers()
		time.Sleep(time.Second)
		if !c.full(t) {
			t.Error("a third request runs beside the two that ran before the outage")
		}
		end()
		c.running.Wait()
		if c.full(t) {
			t.Error("no place after all have ended")
		}
	})
}

// TestSlotsAfterPanic: a hook that panics holds no slot.
func TestSlotsAfterPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		panics := true
		g := newGuard(t, "  - {name: a, by: ip, in_flight: {cap: 1, ttl: 3s}}\n", func(http.ResponseWriter, *http.Request) {}, httplimit.Options{
			Store: memstore.New(memstore.Options{}),
			OnDecision: func(*http.Request, httplimit.Event) {
				if panics {
					panics = false
					panic(http.ErrAbortHandler)
				}
			},
		})
		func() {
			defer func() { _ = recover() }()
			answer(g, requestOf(t, "GET", "/", ""))
		}()
		if w := answer(g, requestOf(t, "GET", "/", "")); w.Code != http.StatusOK {
			t.Errorf("got %d after the panic, want 200", w.Code)
		}
	})
}

// unrenewed is a store that renews no slots.
type unrenewed struct{ *memstore.Store }

func (s unrenewed) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op == sluice.SlotRenew {
		return sluice.SlotDecision{}, errAway
	}
	return s.Store.Slot(ctx, req)
}

// TestErrorsOfRenewals is for the race detector: OnError is called with a request while its
// body is replaced by one that counts.
func TestErrorsOfRenewals(t *testing.T) {
	reported := make(chan string, 100)
	g := newGuard(t, "  - {name: a, by: ip, in_flight: {cap: 2, ttl: 3ms}}\n", func(http.ResponseWriter, *http.Request) {
		if got := <-reported; got != "POST /x" {
			t.Errorf("notified of %s", got)
		}
	}, httplimit.Options{Store: unrenewed{memstore.New(memstore.Options{})}, OnError: func(r *http.Request, _ error) {
		select {
		case reported <- r.Method + " " + r.URL.Path:
		default:
		}
	}})
	answer(g, requestOf(t, "POST", "/x", "body"))
}
