// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

// TestRefundOfSeveralStaysWithinEachBound mixes requests under two limits with
// requests under one of them. A reservation under both counts in each when the slower can
// serve it, which may be long after the other's own earliest instant. Units given back must
// not be spent twice there.
func TestRefundOfSeveralStaysWithinEachBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := []sluice.Limit{
			rapid.SampledFrom(variants()).Draw(t, "first").limit.WithName("a"),
			rapid.SampledFrom(variants()).Draw(t, "second").limit.WithName("b"),
		}
		both := play(open(t, limits...))
		alone := []*player{play(open(t, limits[0])), play(open(t, limits[1]))}
		now := drawStart(t, limits[0])
		ops := []sluice.Op{sluice.OpTake, sluice.OpReserve, sluice.OpReserve, sluice.OpRefund, sluice.OpRefund, sluice.OpTakeUpTo}
		for _, e := range drawTrace(t, limits[rapid.IntRange(0, 1).Draw(t, "costs of")], 40, ops...) {
			now += e.Gap
			who := rapid.IntRange(0, 2).Draw(t, "who")
			if who == 2 {
				both.step(now, e)
			} else {
				alone[who].items[0].State = clone(both.items[who].State)
				alone[who].step(now, e)
				both.items[who].State = clone(alone[who].items[0].State)
			}
		}
		for i, l := range limits {
			book := append(admissions(nil), both.admissions...)
			for _, a := range alone[i].admissions {
				book.add(a.at, a.units)
			}
			checkBounds(t, l, book)
		}
	})
}

// TestRefundGoesByNoOtherQueuesDue changes one of two queues so often that its
// own state has to make room: its units then count in the state of a window. The receipt
// is still one of two queues, and its due instant may be that of either.
func TestRefundGoesByNoOtherQueuesDue(t *testing.T) {
	quick, slow := leaky(10, s, 5, 4).WithName("quick"), leaky(10, 10*s, 5, 1).WithName("slow")
	a := open(t, quick, slow)
	taken := a.take(origin, 2)
	if !taken.Allowed || taken.Delay != dur(s) {
		t.Fatalf("got %+v, want a take that the slow queue delays for a second", taken)
	}
	for i := range int64(4) {
		a.change(quick, fixed(1000, (i+2)*10*s).WithName("slow"))
		if d := a.take(origin+(i+1)*200*ms, 1); !d.Allowed {
			t.Fatalf("got %+v, want a take", d)
		}
	}
	a.change(quick, slow)
	now := origin + 900*ms
	if d := a.take(now, 5); !d.Allowed || d.Delay != dur(100*ms) {
		t.Fatalf("got %+v, want a take that only the quick queue delays", d)
	}
	a.refund(now, 2, taken)
	if got := a.out[0].Spent; got != 0 {
		t.Errorf("the quick queue gives back %d, want 0: its units have drained long ago", -got)
	}
}
