// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
)

// TestRefundGoesByNoOtherQueuesDue changes one of two queues so often that its
// own state has to make room: what it still counts is in a window's. The receipt
// is no less of two queues for that, and its due instant may be that of either.
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
