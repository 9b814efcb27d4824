// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

func TestNames(t *testing.T) {
	for _, c := range []struct {
		value fmt.Stringer
		want  string
	}{
		{sluice.TokenBucket, "token-bucket"},
		{sluice.LeakyBucket, "leaky-bucket"},
		{sluice.FixedWindow, "fixed-window"},
		{sluice.SlidingLog, "sliding-log"},
		{sluice.SlidingCounter, "sliding-counter"},
		{sluice.SlidingHistogram, "sliding-histogram"},
		{sluice.Block, "block"},
		{sluice.Block + 1, "Algorithm(7)"},
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
		{sluice.OpConvert + 1, "Op(9)"},
	} {
		if got := c.value.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.value, got, c.want)
		}
	}
}

// TestNamesOfAlgorithms: a limit's text names every algorithm but a block, which has a
// length beside it.
func TestNamesOfAlgorithms(t *testing.T) {
	for a := range sluice.Block {
		if got, err := sluice.ParseLimit("9/min " + a.String()); err != nil || got.Algorithm != a {
			t.Errorf("ParseLimit of %v = %v, %v", a, got.Algorithm, err)
		}
	}
	if got, err := sluice.ParseLimit("9/min gcra"); err != nil || got.Algorithm != sluice.TokenBucket {
		t.Errorf("gcra: %v, %v, want token-bucket", got.Algorithm, err)
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
		if got := (sluice.Limit{Algorithm: sluice.FixedWindow, Calendar: c.calendar}).Filled().Window; got != c.want {
			t.Errorf("%v: got %v, want %v", c.calendar, got, c.want)
		}
	}
}
