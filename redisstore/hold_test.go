// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
)

// renewals says of each renewal of a slot its result.
type renewals struct {
	sluice.SlotStore
	results chan error
}

func (r renewals) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	d, err := r.SlotStore.Slot(ctx, req)
	if req.Op == sluice.SlotRenew {
		select {
		case r.results <- err:
		default: // nobody has looked at the many before
		}
	}
	return d, err
}

// await returns once a renewal has failed, or has not.
func (r renewals) await(t *testing.T, failed bool) {
	t.Helper()
	end := time.After(30 * time.Second)
	for {
		select {
		case err := <-r.results:
			if (err != nil) == failed {
				return
			}
		case <-end:
			t.Fatalf("no renewal that failed: %v, within 30 s", failed)
		}
	}
}

// TestHoldThroughAnOutage: a slot is held through an outage shorter than its TTL, lost in
// a longer one, and lost where the server comes back empty.
func TestHoldThroughAnOutage(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	send := func(signal syscall.Signal) {
		t.Helper()
		if err := server.Process().Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	store := renewals{open(t, server.Option(), redisstore.Options{Timeout: 100 * time.Millisecond}), make(chan error, 100)}
	hold := func(ttl time.Duration) (context.Context, func()) {
		t.Helper()
		slots, err := sluice.NewSlots(store, "jobs", sluice.SlotLimit{Cap: 1, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		t.Cleanup(cancel)
		for {
			held, release, err := slots.Hold(ctx, "k", 1)
			if err == nil {
				return held, release
			}
			if ctx.Err() != nil { // the store has come back by then
				t.Fatal(err)
			}
		}
	}
	wantLost := func(held context.Context) {
		t.Helper()
		select {
		case <-held.Done():
		case <-time.After(30 * time.Second):
		}
		if err := context.Cause(held); !errors.Is(err, sluice.ErrSlotLost) {
			t.Fatalf("ended by %v, want %v", err, sluice.ErrSlotLost)
		}
	}

	held, release := hold(10 * time.Second)
	send(syscall.SIGSTOP)
	store.await(t, true)
	send(syscall.SIGCONT)
	store.await(t, false)
	if held.Err() != nil {
		t.Errorf("after a short outage: %v", context.Cause(held))
	}
	release()

	held, release = hold(time.Second)
	send(syscall.SIGSTOP)
	wantLost(held)
	send(syscall.SIGCONT)
	release()

	held, release = hold(5 * time.Second)
	server.Kill(t)
	server.Run(t)
	wantLost(held)
	release()
}
