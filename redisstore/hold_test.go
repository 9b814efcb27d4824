// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// renewals reports the result of each renewal of a slot.
type renewals struct {
	sluice.SlotStore
	results chan error
}

func (r renewals) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	d, err := r.SlotStore.Slot(ctx, req)
	if req.Op == sluice.SlotRenew {
		select {
		case r.results <- err:
		default: // the channel is full of results that nobody has read
		}
	}
	return d, err
}

// await waits for a renewal that fails, or for one that does not.
func (r renewals) await(t *testing.T, failed bool) {
	t.Helper()
	end := time.After(testkit.Ceiling)
	for {
		select {
		case err := <-r.results:
			if (err != nil) == failed {
				return
			}
		case <-end:
			t.Fatalf("no renewal that failed: %v, within a minute", failed)
		}
	}
}

// TestHoldThroughAnOutage: a slot is held through an outage shorter than its TTL, lost in
// a longer one, and lost where the server comes back empty.
func TestHoldThroughAnOutage(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	store := renewals{open(t, server, redisstore.Options{Timeout: 100 * time.Millisecond}), make(chan error, 100)}
	hold := func(ttl time.Duration) (context.Context, func()) {
		t.Helper()
		slots, err := sluice.NewSlots(store, "jobs", sluice.SlotLimit{Cap: 1, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*testkit.Ceiling)
		t.Cleanup(cancel)
		for {
			held, release, err := slots.Wait(ctx, "k", 1)
			if err == nil {
				return held, release
			}
			if ctx.Err() != nil { // the store is back by then
				t.Fatal(err)
			}
		}
	}
	wantLost := func(held context.Context) {
		t.Helper()
		select {
		case <-held.Done():
		case <-time.After(testkit.Ceiling):
		}
		if err := context.Cause(held); !errors.Is(err, sluice.ErrSlotLost) {
			t.Fatalf("ended by %v, want %v", err, sluice.ErrSlotLost)
		}
	}

	for ttl := 3 * time.Second; ; ttl *= 3 { // a busy machine makes an outage longer
		held, release := hold(ttl)
		server.Stop(t)
		store.await(t, true)
		server.Continue(t)
		store.await(t, false)
		lost := context.Cause(held)
		release()
		if lost == nil {
			break
		}
		if ttl > testkit.Ceiling {
			t.Fatalf("after a short outage: %v", lost)
		}
	}

	held, release := hold(time.Second)
	server.Stop(t)
	wantLost(held)
	server.Continue(t)
	release()

	held, release = hold(2 * time.Second)
	server.Kill(t)
	server.Run(t)
	wantLost(held)
	release()
}
