// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestAwaitGivesBack: a caller that leaves while it waits has spent nothing under any charge.
func TestAwaitGivesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(memstore.Options{})
		plan := testkit.Compile(t, "s", sluice.PerSecond(10).WithBurst(1))
		charges := []sluice.Charge{{Plan: plan, Key: "a", Cost: 1}, {Plan: plan, Key: "b", Cost: 1}}
		req := sluice.Request{Op: sluice.OpReserve, Charge: charges[0], More: charges[1:], MaxWait: time.Minute}
		must(t)(store.Take(t.Context(), req))
		d := must(t)(store.Take(t.Context(), req))

		ctx, cancel := context.WithTimeout(t.Context(), d.Delay/2)
		defer cancel()
		if err := sluice.Await(ctx, store, req, d); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Await = %v, want the context's error", err)
		}
		again := must(t)(store.Take(t.Context(), req))
		if again.Delay != d.Delay/2 {
			t.Errorf("the next waits for %v, want the place of the one that left, in %v", again.Delay, d.Delay/2)
		}
		start := time.Now()
		if err := sluice.Await(t.Context(), store, req, again); err != nil || time.Since(start) != again.Delay {
			t.Errorf("Await = %v after %v, want nil after %v", err, time.Since(start), again.Delay)
		}
	})
}

func TestAwaitReportsAFailedRefund(t *testing.T) {
	broken := errors.New("broken")
	store := testkit.Failing(broken)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req := sluice.Request{Op: sluice.OpReserve, Charge: sluice.Charge{Plan: testkit.Compile(t, "s", sluice.PerMinute(1)), Cost: 1}}
	err := sluice.Await(ctx, store, req, sluice.Decision{Allowed: true, Spent: 1, Delay: time.Hour, At: 1})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, broken) {
		t.Errorf("Await = %v, want the errors of context and store", err)
	}
}

func TestUndo(t *testing.T) {
	plan := testkit.Compile(t, "s", sluice.PerMinute(9))
	for _, c := range []struct {
		name        string
		op          sluice.Op
		cost, other int64 // of two charges
		d           sluice.Decision
		ok          bool
		back, more  int64 // units given back
	}{
		{"take", sluice.OpTake, 2, 3, sluice.Decision{Allowed: true, Spent: 2}, true, 2, 3},
		{"reservation", sluice.OpReserve, 2, 3, sluice.Decision{Allowed: true, Spent: 2}, true, 2, 3},
		{"first charge of nothing", sluice.OpTake, 0, 3, sluice.Decision{Allowed: true}, true, 0, 3},
		{"as many as there are", sluice.OpTakeUpTo, 9, 9, sluice.Decision{Allowed: true, Spent: 4}, true, 4, 4},
		{"as many as there are, of one", sluice.OpTakeUpTo, 9, 0, sluice.Decision{Allowed: true, Spent: 4}, true, 4, 0},
		{"as many as there are, not reported", sluice.OpTakeUpTo, 0, 9, sluice.Decision{Allowed: true}, false, 0, 0},
		{"denied", sluice.OpTake, 2, 3, sluice.Decision{}, false, 0, 0},
		{"charge", sluice.OpCharge, 2, 3, sluice.Decision{Allowed: true, Spent: 2}, false, 0, 0},
		{"peek", sluice.OpPeek, 2, 3, sluice.Decision{Allowed: true}, false, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.d.At, c.d.Due = 7, 8
			req := sluice.Request{Op: c.op, Charge: sluice.Charge{Plan: plan, Key: "a", Cost: c.cost}, More: []sluice.Charge{{Plan: plan, Key: "b", Cost: c.other}}}
			undo, ok := req.Undo(c.d)
			if ok != c.ok {
				t.Fatalf("ok = %t, want %t", ok, c.ok)
			}
			if !ok {
				return
			}
			if undo.Op != sluice.OpRefund || undo.At != 7 || undo.Due != 8 || undo.Cost != c.back || undo.More[0].Cost != c.more {
				t.Errorf("undo = %+v, want %d and %d units back", undo, c.back, c.more)
			}
			if req.More[0].Cost != c.other {
				t.Errorf("the request costs %d now, want %d", req.More[0].Cost, c.other)
			}
		})
	}
}
