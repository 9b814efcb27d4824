// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"fmt"
	"testing"
	"time"
	"unsafe"

	"github.com/sluicegate/sluice"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{sluice.TokenBucket{}, "token-bucket"},
		{sluice.LeakyBucket{}, "leaky-bucket"},
		{sluice.FixedWindow{}, "fixed-window"},
		{sluice.SlidingLog{}, "sliding-log"},
		{sluice.SlidingCounter{}, "sliding-counter"},
		{sluice.SlidingHistogram{}, "sliding-histogram"},
		{sluice.Block{}, "block"},
		{sluice.Requests, "requests"},
		{sluice.Bytes, "bytes"},
		{sluice.Bytes + 1, "Unit(2)"},
		{sluice.NoCalendar, "none"},
		{sluice.Day, "day"},
		{sluice.Week, "week"},
		{sluice.Month, "month"},
		{sluice.Year, "year"},
		{sluice.Year + 1, "Calendar(5)"},
		{sluice.OpTake, "take"},
		{sluice.OpPeek, "peek"},
		{sluice.OpRefund, "refund"},
		{sluice.OpCharge, "charge"},
		{sluice.OpTakeUpTo, "take-up-to"},
		{sluice.OpReserve, "reserve"},
		{sluice.OpReset, "reset"},
		{sluice.OpAdd, "add"},
		{sluice.OpConvert, "convert"},
		{sluice.OpSettle, "settle"},
		{sluice.OpExtend, "extend"},
		{sluice.OpExtend + 1, "Op(11)"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.value, got, c.want)
		}
	}
}

// TestNamesOfAlgorithms: a limit's text names every algorithm. Only a block needs a length
// after its name.
func TestNamesOfAlgorithms(t *testing.T) {
	for _, a := range []sluice.Algorithm{
		sluice.LeakyBucket{}, sluice.FixedWindow{}, sluice.SlidingLog{}, sluice.SlidingCounter{}, sluice.SlidingHistogram{},
	} {
		if got, err := sluice.ParseLimit("9/min " + a.String()); err != nil || got.Algorithm != a {
			t.Errorf("ParseLimit of %v = %v, %v", a, got.Algorithm, err)
		}
	}
	for _, name := range []string{"gcra", sluice.TokenBucket{}.String()} {
		if got, err := sluice.ParseLimit("9/min " + name); err != nil || got != sluice.PerMinute(9) {
			t.Errorf("%s: %v, %v, want a token bucket", name, got, err)
		}
	}
	for _, name := range []string{"GCRA", "token bucket", "Algorithm(0)"} {
		if got, err := sluice.ParseLimit("9/min " + name); err == nil {
			t.Errorf("%q: %v, want an error", name, got)
		}
	}
}

func TestCalendarNominal(t *testing.T) {
	for _, c := range []struct {
		calendar sluice.Calendar
		want     time.Duration
	}{
		{sluice.NoCalendar, 0},
		{sluice.Day, day},
		{sluice.Week, 7 * day},
		{sluice.Month, 31 * day},
		{sluice.Year, 366 * day},
		{sluice.Year + 1, 0},
		{255, 0},
	} {
		if got := (sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: c.calendar}}).Filled().Window; got != c.want {
			t.Errorf("%v: got %v, want %v", c.calendar, got, c.want)
		}
	}
}

// TestLimitIsSmall: plans, decisions' errors and explanations hold limits by value.
func TestLimitIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(sluice.Limit{}); got > 96 {
		t.Errorf("a Limit has %d bytes, want at most 96", got)
	}
}

// TestLimitIsAKey: limits with the same text are the same map key; another option makes
// another key.
func TestLimitIsAKey(t *testing.T) {
	written := func() []sluice.Limit {
		return []sluice.Limit{
			sluice.PerMinute(5),
			sluice.PerMinute(5).WithAlgorithm(sluice.TokenBucket{Refill: sluice.Interval}),
			sluice.PerMinute(5).WithAlgorithm(sluice.LeakyBucket{}),
			sluice.PerMinute(5).WithAlgorithm(sluice.FixedWindow{}),
			sluice.PerMinute(5).WithAlgorithm(sluice.FixedWindow{OnFirst: true}),
			sluice.PerMinute(5).WithAlgorithm(sluice.SlidingLog{}),
			sluice.PerMinute(5).WithAlgorithm(sluice.SlidingCounter{}),
			sluice.PerMinute(5).WithAlgorithm(sluice.SlidingHistogram{}),
			sluice.PerMinute(5).WithAlgorithm(sluice.Block{For: time.Hour}),
		}
	}
	seen := make(map[sluice.Limit]int)
	for range 2 {
		for _, l := range written() {
			seen[l]++
		}
	}
	for l, n := range seen {
		if n != 2 {
			t.Errorf("%v was found %d times, want 2", l, n)
		}
	}
	if len(seen) != len(written()) {
		t.Errorf("got %d keys, want %d", len(seen), len(written()))
	}
}

// TestNilIsTokenBucket: nil and TokenBucket{} are equal once filled in, and as text.
func TestNilIsTokenBucket(t *testing.T) {
	l, same := sluice.PerMinute(5), sluice.PerMinute(5).WithAlgorithm(sluice.TokenBucket{})
	if l.Filled() != same.Filled() || l.String() != same.String() {
		t.Errorf("got %+v and %+v, want one limit", l.Filled(), same.Filled())
	}
	if got := l.Filled().Algorithm; got != (sluice.TokenBucket{}) {
		t.Errorf("filled in: got %v, want TokenBucket{}", got)
	}
	if got := sluice.MustParseLimit(same.String()); got != l {
		t.Errorf("read again: got %+v, want %+v", got, l)
	}
	a, errA := sluice.CompileLimit("s", l)
	b, errB := sluice.CompileLimit("s", same)
	if errA != nil || errB != nil || *a != *b {
		t.Errorf("compiled: got %+v and %+v, want one term", a, b)
	}
}
