// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/memstore"
)

// TestSumBeyondASlot: sub-windows that together count more than a slot has room for, by
// denials, still count in full, until they are out of sight.
func TestSumBeyondASlot(t *testing.T) {
	const quota = 1 << 52
	now := time.UnixMicro(500_000 * time.Hour.Microseconds())
	s := memstore.New(memstore.Options{MaxKeys: 16, Now: func() time.Time { return now }})
	l := storekit.Limiter(t, s, "scope", "4503599627370496/hour sliding-counter count-denied sub-windows 10 conservative")
	for i := range 8 {
		d, err := l.Take(t.Context(), "k", quota)
		if err != nil || d.Allowed != (i == 0) {
			t.Fatalf("take %d: %+v, %v", i, d, err)
		}
		now = now.Add(6 * time.Minute)
	}
	for range 2 { // the state is read again
		if d, err := l.Take(t.Context(), "k", 1); err != nil || d.Allowed || d.RetryAfter != time.Hour {
			t.Fatalf("%+v, %v, want a denial for an hour", d, err)
		}
	}
	now = now.Add(time.Hour)
	if d, err := l.Take(t.Context(), "k", quota-2); err != nil || !d.Allowed {
		t.Fatalf("%+v, %v", d, err)
	}
}
