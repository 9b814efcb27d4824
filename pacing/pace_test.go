// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// TestSpread: paces are in whole microseconds, and n of them are never less than the span.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		span time.Duration
		n    int64
		want time.Duration
	}{
		{time.Second, 10, 100 * time.Millisecond},
		{time.Second, 3, 333334 * time.Microsecond},
		{time.Minute, 65537, 916 * time.Microsecond},
		{time.Second, 1 << 62, time.Microsecond},
		{sluice.MaxWindow, 1<<63 - 1, time.Microsecond},
		{time.Second, 0, 0},
		{time.Second, -1, 0},
		{0, 5, 0},
	} {
		if got := spread(c.span, c.n); got != c.want {
			t.Errorf("%v of %d: got %v, want %v", c.span, c.n, got, c.want)
		}
	}
}

// TestFull: the time from a bucket's burst is more exact than t, unless the server says
// otherwise.
func TestFull(t *testing.T) {
	for _, c := range []struct {
		name               string
		burst, left, quota int64
		window, span, want time.Duration
	}{
		{"one of one", 1, 0, 10, time.Second, time.Second, 100 * time.Millisecond},
		{"two of three", 3, 1, 10, time.Second, time.Second, 200 * time.Millisecond},
		{"no unit lost", 3, 3, 10, time.Second, time.Second, time.Second},
		{"more than there can be", 3, 9, 10, time.Second, time.Second, time.Second},
		{"seconds", 25, 0, 10, time.Second, 3 * time.Second, 2500 * time.Millisecond},
		{"the server says longer", 25, 0, 10, time.Second, 4 * time.Second, 4 * time.Second},
		{"the server says less", 25, 0, 10, time.Second, time.Second, time.Second},
		{"no burst", 0, 0, 10, time.Second, time.Second, time.Second},
		{"no window", 1, 0, 0, 0, time.Second, time.Second},
		{"huge", 1 << 62, 0, 1, sluice.MaxWindow, time.Second, time.Second},
	} {
		p := pace{burst: c.burst, quota: c.quota, window: c.window}
		if got := p.full(c.span, c.left); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// TestReturnsAreBounded: all units are refilled, late rather than early.
func TestReturnsAreBounded(t *testing.T) {
	const n = 10 * mostReturns
	start := time.Unix(1000, 0)
	var r returns
	for i := range n {
		r.add(start.Add(time.Duration((i*7)%n) * time.Second)) // in random order
		if len(r) > mostReturns {
			t.Fatalf("%d instants are remembered; want at most %d", len(r), mostReturns)
		}
	}
	var back int64
	for i := range int64(n) {
		if back += r.take(start.Add(time.Duration(i) * time.Second)); back > i+1 {
			t.Fatalf("after %d s %d units are back; want at most %d", i, back, i+1)
		}
	}
	if back != n {
		t.Errorf("%d units came back; want %d", back, n)
	}
}
