// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

// countingSlots is a store of slots that counts its calls, and fails if a test sets it to.
type countingSlots struct {
	sluice.Store // for requests of units, which no test sends
	store        atomic.Pointer[memstore.Store]
	asked        [sluice.SlotPeek + 1]atomic.Int64
	fault        atomic.Pointer[error]
	last         atomic.Int64 // when it decided last, in ns
}

func (k *countingSlots) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	k.asked[req.Op].Add(1)
	if err := k.fault.Load(); err != nil {
		return sluice.SlotDecision{}, *err
	}
	k.last.Store(time.Now().UnixNano())
	return k.store.Load().Slot(ctx, req)
}

// forget replaces the store by an empty one.
func (k *countingSlots) forget() { k.store.Store(memstore.New(memstore.Options{})) }

func (k *countingSlots) fail(err error) { k.fault.Store(&err) }

// newSlots returns n slots of 3 s on a store in memory.
func newSlots(t *testing.T, n int64) (*sluice.Slots, *countingSlots) {
	t.Helper()
	counting := &countingSlots{}
	counting.forget()
	slots, err := sluice.NewSlots(counting, "jobs", sluice.SlotLimit{Cap: n, TTL: 3 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return slots, counting
}

func hold(t *testing.T, slots *sluice.Slots, cost int64) (context.Context, func()) {
	t.Helper()
	held, release, err := slots.Wait(t.Context(), "k", cost)
	if err != nil {
		t.Fatal(err)
	}
	return held, release
}

func wantHeld(t *testing.T, slots *sluice.Slots, want int64) {
	t.Helper()
	if d, err := slots.Peek(t.Context(), "k", 1); err != nil || d.Held != want {
		t.Errorf("%d held, %v, want %d", d.Held, err, want)
	}
}

// TestHoldIsRenewed: a slot is renewed for longer than its TTL, until any goroutine releases
// it.
func TestHoldIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, counting := newSlots(t, 1)
		held, release := hold(t, slots, 1)
		for range 10 {
			time.Sleep(time.Second)
			wantHeld(t, slots, 1)
		}
		if n := counting.asked[sluice.SlotRenew].Load(); n < 9 || n > 10 || held.Err() != nil {
			t.Errorf("%d renewals in 10 s, context %v; want one each second", n, held.Err())
		}
		var all sync.WaitGroup
		for range 3 {
			all.Go(release)
		}
		all.Wait()
		release()
		wantHeld(t, slots, 0)
		if held.Err() == nil || errors.Is(context.Cause(held), sluice.ErrSlotLost) {
			t.Errorf("after the release: %v", context.Cause(held))
		}
		if n := counting.asked[sluice.SlotRelease].Load(); n != 1 {
			t.Errorf("%d releases, want 1", n)
		}
		asked := counting.asked[sluice.SlotRenew].Load()
		time.Sleep(time.Minute)
		if n := counting.asked[sluice.SlotRenew].Load(); n != asked {
			t.Errorf("renewed %d times after the release", n-asked)
		}
	})
}

// TestHoldWaits: Wait waits for a release without calling the store all the time, and for a
// lease to expire.
func TestHoldWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, counting := newSlots(t, 2)
		_, first := hold(t, slots, 2)
		start := time.Now()
		time.AfterFunc(20*time.Second, first)
		_, second := hold(t, slots, 1)
		if waited := time.Since(start); waited < 20*time.Second || waited > 21*time.Second {
			t.Errorf("waited %v for a release after 20s", waited)
		}
		if n := counting.asked[sluice.SlotAcquire].Load(); n > 1+7+40+1 {
			t.Errorf("asked %d times within 20 s", n)
		}
		second()
		if _, err := slots.Acquire(t.Context(), "k", "dies", 2); err != nil {
			t.Fatal(err)
		}
		start = time.Now()
		_, third := hold(t, slots, 2)
		defer third()
		if waited := time.Since(start); waited < 3*time.Second || waited > 3*time.Second+10*time.Millisecond {
			t.Errorf("waited %v for a lease of 3s to expire", waited)
		}
	})
}

// TestHoldEnds: Wait ends with its context, and leaves nothing behind.
func TestHoldEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, counting := newSlots(t, 1)
		_, first := hold(t, slots, 1)
		defer first()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		if _, _, err := slots.Wait(ctx, "k", 1); err != context.DeadlineExceeded || time.Since(start) != 5*time.Second { //nolint:errorlint // nothing may be joined to it
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		asked := counting.asked[sluice.SlotAcquire].Load()
		if _, _, err := slots.Wait(ctx, "k", 1); !errors.Is(err, context.DeadlineExceeded) || counting.asked[sluice.SlotAcquire].Load() != asked {
			t.Errorf("with a context that has ended: %v", err)
		}
		var fault *sluice.RequestError
		if _, _, err := slots.Wait(t.Context(), "k", 2); !errors.As(err, &fault) || fault.Field != "Cost" {
			t.Errorf("more than the cap: %v", err)
		}
		wantHeld(t, slots, 1)
	})
}

// TestHoldOutlivesItsContext: work that ends late still has its slot.
func TestHoldOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, _ := newSlots(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		held, release, err := slots.Wait(ctx, "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if <-held.Done(); !errors.Is(context.Cause(held), context.Canceled) {
			t.Errorf("ended by %v", context.Cause(held))
		}
		time.Sleep(time.Minute)
		wantHeld(t, slots, 1)
		release()
		wantHeld(t, slots, 0)
	})
}

// TestHoldDuringAnOutage: a slot is held during an outage shorter than its TTL, and lost
// before another owner can acquire it.
func TestHoldDuringAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, counting := newSlots(t, 1)
		held, release := hold(t, slots, 1)
		time.Sleep(1500 * time.Millisecond) // renewed after 1 s
		gone := errors.New("gone")
		counting.fail(gone)
		time.Sleep(2 * time.Second)
		if held.Err() != nil {
			t.Errorf("2.5 s after it was renewed: %v", context.Cause(held))
		}
		counting.fault.Store(nil)
		time.Sleep(time.Minute)
		if held.Err() != nil {
			t.Errorf("once the store is available again: %v", context.Cause(held))
		}
		counting.fail(gone)
		<-held.Done()
		if err := context.Cause(held); !errors.Is(err, sluice.ErrSlotLost) || !errors.Is(err, gone) {
			t.Errorf("lost, with the cause %v", err)
		}
		if after := time.Since(time.Unix(0, counting.last.Load())); after != 3*time.Second {
			t.Errorf("lost %v after the last renewal, want a TTL", after)
		}
		release()
		counting.fault.Store(nil)
		_, again := hold(t, slots, 1)
		again()
	})
}

// TestHoldIsLost: a slot is lost as soon as the store reports it.
func TestHoldIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots, counting := newSlots(t, 1)
		start := time.Now()
		held, release := hold(t, slots, 1)
		counting.forget()
		if <-held.Done(); !errors.Is(context.Cause(held), sluice.ErrSlotLost) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), context.Cause(held))
		}
		release()
	})
}

// TestHoldOfAStoreThatFails: after an error Wait releases the units that it may have acquired.
func TestHoldOfAStoreThatFails(t *testing.T) {
	slots, counting := newSlots(t, 1)
	for _, c := range []struct {
		err      error
		releases int64
	}{
		{&sluice.NotSentError{Err: errors.New("no route")}, 0},
		{sluice.NewMaybeSentError(errors.New("slow"), nil), 1},
	} {
		counting.fail(c.err)
		before := counting.asked[sluice.SlotRelease].Load()
		if _, _, err := slots.Wait(t.Context(), "k", 1); !errors.Is(err, c.err) {
			t.Errorf("got %v, want %v", err, c.err)
		}
		if n := counting.asked[sluice.SlotRelease].Load() - before; n != c.releases {
			t.Errorf("%v: %d releases, want %d", c.err, n, c.releases)
		}
	}
}
