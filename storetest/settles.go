// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// testSettles settles one decision again and again. It checks that each step moves exactly the
// difference and returns the recorded units, at whichever of two instants they count.
func testSettles(t *testing.T, b *bench) {
	h, clock := b.store(t)
	for _, text := range []string{
		"100/1000h", "100/1000h interval-refill", "100/1000h leaky-bucket burst 100 nodelay", "100/1000h fixed-window anchor first",
		"100/1000h sliding-log", "100/1000h sliding-counter", "100/1000h sliding-histogram",
	} {
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		lim, err := sluice.New(h.Store, "settles "+text, limit)
		if err != nil {
			t.Fatal(err)
		}
		d, err := lim.Take(t.Context(), "k", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct{ actual, spent int64 }{{200, 100}, {150, 100}, {95, 95}, {5, 5}, {40, 40}, {30, 30}, {8, 8}, {0, 0}} {
			clock.Set(clock.Now().Add(time.Second)) // each unit lasts for ten hours
			if d, err = lim.Settle(t.Context(), "k", d, step.actual); err != nil {
				t.Fatal(err)
			}
			now, err := lim.Peek(t.Context(), "k", 0)
			if err != nil || d.Spent != step.spent || now.Remaining != 100-step.spent {
				t.Errorf("%s: settled at %d: spent %d with %d remaining, want %d and %d (%v)", text, step.actual, d.Spent, now.Remaining, step.spent, 100-step.spent, err)
			}
		}
	}
}

// testReceiptsBehindReset refunds units taken before a reset or an add, and checks that no
// unit of a later take is given back.
func testReceiptsBehindReset(t *testing.T, b *bench) {
	h, clock := b.store(t)
	for _, text := range []string{
		"100/1000h", "100/1000h interval-refill", "100/1000h aligned-refill", "100/1000h burst 100 leaky-bucket", "100/1000h fixed-window",
		"100/1000h fixed-window anchor first", "100/1000h sliding-log", "100/1000h sliding-counter", "100/1000h sliding-counter sub-windows 4",
		"100/1000h sliding-histogram",
	} {
		limit, err := sluice.ParseLimit(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, op := range []sluice.Op{sluice.OpReset, sluice.OpAdd} {
			lim, err := sluice.New(h.Store, op.String()+" "+text, limit)
			if err != nil {
				t.Fatal(err)
			}
			do := func(op sluice.Op, units int64, of sluice.Decision) sluice.Decision {
				clock.Set(clock.Now().Add(time.Millisecond))
				req := sluice.Request{Op: op, Charge: lim.Of("k", units), At: of.At, Due: of.Due}
				if op == sluice.OpReset {
					req.Cost = 0
				}
				d, err := h.Store.Take(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				return d
			}
			first := do(sluice.OpTake, 100, sluice.Decision{})
			do(op, 100, sluice.Decision{})
			second := do(sluice.OpTakeUpTo, 100, sluice.Decision{}) // a unit that has drained meanwhile may be left, too
			back := do(sluice.OpRefund, 100, first)
			left := do(sluice.OpPeek, 1, sluice.Decision{})
			if !first.Allowed || second.Spent < 99 || back.Spent != 0 || left.Allowed {
				t.Errorf("%s, %v: took %d, then %d; the first receipt gave back %d, want 0, with %d left", text, op, first.Spent, second.Spent, -back.Spent, left.Remaining)
			}
		}
	}
}
