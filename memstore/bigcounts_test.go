// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestSumBeyondAWord: sub-windows that together count 2^63 and more, by denials, count in
// full, and a snapshot holds them.
func TestSumBeyondAWord(t *testing.T) {
	now := time.UnixMicro(500_000 * time.Hour.Microseconds())
	o := memstore.Options{MaxKeys: 16, Now: func() time.Time { return now }}
	s := memstore.New(o)
	const text = "9007199254740991/1024s sliding-counter count-denied sub-windows 1024"
	l := testkit.Limiter(t, s, "scope", text)
	for i := range 1100 {
		if d, err := l.Take(t.Context(), "k", sluice.MaxQuota); err != nil || d.Allowed != (i == 0) || d.Remaining != 0 {
			t.Fatalf("take %d: %+v, %v", i, d, err)
		}
		if i%50 == 1 {
			var saved bytes.Buffer
			if err := s.Snapshot(&saved); err != nil {
				t.Fatal(err)
			}
			s = memstore.New(o)
			if err := s.Restore(&saved); err != nil {
				t.Fatal(err)
			}
			l = testkit.Limiter(t, s, "scope", text)
		}
		now = now.Add(time.Second)
	}
}

// TestSumBeyondASlot: sub-windows that together count more than a slot has room for, by
// denials, still count in full, until they are out of sight.
func TestSumBeyondASlot(t *testing.T) {
	const quota = 1 << 52
	now := time.UnixMicro(500_000 * time.Hour.Microseconds())
	s := memstore.New(memstore.Options{MaxKeys: 16, Now: func() time.Time { return now }})
	l := testkit.Limiter(t, s, "scope", "4503599627370496/hour sliding-counter count-denied sub-windows 10 conservative")
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
