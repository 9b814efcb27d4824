// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestHeld: a Held marks a settle as a retry from the second attempt on, also after an error.
func TestHeld(t *testing.T) {
	clock := testkit.NewClock()
	var lost error
	store := &testkit.Store{Store: memstore.New(memstore.Options{Now: clock.Now}), After: func(sluice.Request, sluice.Result) error { return lost }}
	l := testkit.Limiter(t, store, "s", "10/day fixed-window debt 10")
	held, d, err := l.Hold(t.Context(), "k", 4, sluice.HoldOptions{TTL: time.Minute})
	if err != nil || !d.Allowed || d.Remaining != 6 || d.At != 0 {
		t.Fatalf("got %+v, %v", d, err)
	}
	clock.Advance(30 * time.Second)
	if d, err := held.Extend(t.Context()); err != nil || !d.Allowed {
		t.Errorf("extend: got %+v, %v", d, err)
	}
	clock.Advance(45 * time.Second)
	lost = errors.New("the answer was lost")
	if _, err := held.Settle(t.Context(), 7); !errors.Is(err, lost) {
		t.Fatal(err)
	}
	lost = nil
	for range 2 {
		if d, err := held.Settle(t.Context(), 7); err != nil || d.Spent != 7 || d.Remaining != 3 || d.Hold != sluice.HoldSettled {
			t.Errorf("got %+v, %v, want 7 spent", d, err)
		}
	}
	clock.Advance(time.Hour)
	if d, err := held.Settle(t.Context(), 7); err != nil || d.Spent != 0 || d.Hold != sluice.HoldUnknown {
		t.Errorf("after all is forgotten: got %+v, %v, want nothing charged", d, err)
	}
	denied, d, err := l.Hold(t.Context(), "k", 11, sluice.HoldOptions{ID: "denied", TTL: time.Minute})
	if err != nil || d.Allowed || denied.Cancel(t.Context()) != nil {
		t.Fatalf("got %+v, %v, want a denial", d, err)
	}
	if _, d, err := l.Hold(t.Context(), "k", 11, sluice.HoldOptions{ID: "denied", TTL: time.Minute}); err != nil || d.Allowed {
		t.Errorf("after a cancel of what was denied: got %+v, %v", d, err)
	}
	again, d, err := l.Hold(t.Context(), "k", 3, sluice.HoldOptions{ID: "x", TTL: time.Minute})
	if err != nil || d.Remaining != 0 {
		t.Fatalf("got %+v, %v", d, err)
	}
	if err := again.Cancel(t.Context()); err != nil || testkit.Spent(t, store, l.Plan(), "k") != 7 {
		t.Errorf("cancel: %v, want the units back", err)
	}
}

// TestUndoOfAHold: the undo of a take forgets its hold.
func TestUndoOfAHold(t *testing.T) {
	store := memstore.New(memstore.Options{})
	plan, other := testkit.Plan(t, "s", "10/day"), testkit.Plan(t, "o", "10/day")
	req := sluice.Request{
		Charge: sluice.Charge{Plan: plan, Cost: 4}, More: []sluice.Charge{{Plan: other, Cost: 2}},
		Hold: &sluice.Hold{ID: "a", TTL: time.Minute},
	}
	undo, ok := req.Undo(testkit.Take(t, store, req))
	if !ok {
		t.Fatal("there is nothing to undo")
	}
	if d := testkit.Take(t, store, undo); d.Spent != 0 || d.Remaining != 10 {
		t.Errorf("got %+v, want all 10 left", d)
	}
	if n := testkit.Spent(t, store, other, ""); n != 0 {
		t.Errorf("%d of the other are spent", n)
	}
	if d := testkit.Take(t, store, req); d.Hold != sluice.HoldOpen || d.Remaining != 6 {
		t.Errorf("got %+v, want that the id can be used again", d)
	}
}

// TestStoreWithoutHolds: a store that keeps no holds returns ErrNoHolds.
func TestStoreWithoutHolds(t *testing.T) {
	l := testkit.Limiter(t, &mapStore{}, "s", "10/day")
	if _, _, err := l.Hold(context.Background(), "k", 1, sluice.HoldOptions{TTL: time.Minute}); !errors.Is(err, sluice.ErrNoHolds) {
		t.Errorf("got %v, want ErrNoHolds", err)
	}
}
