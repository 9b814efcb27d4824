// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"math/big"
	"time"
	_ "time/tzdata" // the zones below, on a machine without zone files

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

var zones = []string{
	"", "UTC", "Asia/Seoul", "America/New_York", "Europe/London", "Pacific/Apia",
	"Etc/GMT+5", "Etc/GMT-14", "America/Argentina/ComodRivadavia", "America/Port-au-Prince",
}

// limits draws any valid limit, with every variant of every algorithm and
// numbers up to the bounds.
func limits() *rapid.Generator[sluice.Limit] { return rapid.Custom(drawLimit) }

func drawLimit(t *rapid.T) sluice.Limit {
	l := sluice.Limit{
		Name:      rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z0-9._-]{1,64}`)).Draw(t, "name"),
		Algorithm: sluice.Algorithm(rapid.IntRange(0, int(sluice.Block)).Draw(t, "algorithm")),
		Quota:     rapid.Int64Range(1, sluice.MaxQuota).Draw(t, "quota"),
		Unit:      rapid.SampledFrom([]sluice.Unit{sluice.Requests, sluice.Bytes}).Draw(t, "unit"),
		Window:    drawWindow(t),

		CountDenied: rapid.Bool().Draw(t, "count denied"),
	}
	switch l.Algorithm {
	case sluice.TokenBucket:
		l.Refill = rapid.SampledFrom([]sluice.Refill{sluice.Continuous, sluice.Interval, sluice.Aligned}).Draw(t, "refill")
		drawBurst(t, &l)
		l.InitialDeficit = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, l.Full())).Draw(t, "deficit")
		l.NextWaits = l.Debt > 0 && rapid.Bool().Draw(t, "next waits")
		l.CountDenied = l.CountDenied && !l.NextWaits && l.Refill != sluice.Aligned
		if !l.CountDenied && l.Refill == sluice.Continuous && l.InitialDeficit == 0 && rapid.Bool().Draw(t, "warms up") {
			l.WarmUp = time.Duration(rapid.Int64Range(1, bounds.MaxWarmUp.Microseconds()).Draw(t, "warm-up")) * time.Microsecond
		}
		drawCredit(t, &l)
	case sluice.LeakyBucket:
		drawBurst(t, &l)
		l.DelayAfter = rapid.OneOf(rapid.Int64Range(0, l.Full()), rapid.Just(l.Full())).Draw(t, "delay after")
	case sluice.FixedWindow:
		drawFixed(t, &l)
	case sluice.SlidingLog:
		l.Quota = rapid.Int64Range(1, bounds.MaxLogQuota).Draw(t, "log quota")
		l.Debt = rapid.Int64Range(0, bounds.MaxLogQuota-l.Quota).Draw(t, "log debt")
		return l
	case sluice.SlidingCounter:
		l.SubWindows = rapid.IntRange(0, bounds.MaxSubWindow).Filter(func(n int) bool {
			return n < 2 || l.Window.Microseconds()%int64(n) == 0
		}).Draw(t, "sub-windows")
		l.Quota = min(l.Quota, bounds.MaxCounterQuota(max(l.SubWindows, 1)))
		l.Conservative = rapid.Bool().Draw(t, "conservative")
		l.Strict = !l.Conservative && rapid.Bool().Draw(t, "strict")
		l.Whole = !l.Conservative && !l.Strict && l.SubWindows > 1 && rapid.Bool().Draw(t, "whole")
		l.PreFilled = rapid.Bool().Draw(t, "pre-filled")
	case sluice.Block:
		l.Unit, l.CountDenied, l.BlockFor = sluice.Requests, false, drawWindow(t)
		return l
	case sluice.SlidingHistogram:
		l.Precision = rapid.OneOf(rapid.Just(0), rapid.IntRange(3, 1024)).Draw(t, "precision")
	}
	if l.Burst == 0 && l.Algorithm != sluice.TokenBucket && l.Algorithm != sluice.LeakyBucket {
		most := sluice.MaxQuota - l.Quota
		if l.Algorithm == sluice.SlidingCounter {
			most = bounds.MaxCounterQuota(max(l.SubWindows, 1)) - l.Quota
			if runs := max(int64(bounds.MaxRefill/(2*l.Window))-2, 0); runs <= most/l.Quota {
				most = runs * l.Quota
			}
		}
		l.Debt = rapid.Int64Range(0, most).Draw(t, "debt")
	}
	return l
}

// drawCredit gives l credit, where it goes with what it has.
func drawCredit(t *rapid.T, l *sluice.Limit) {
	with := *l
	with.Credit, with.CreditFor = rapid.Int64Range(1, 1<<20).Draw(t, "credit"), drawWindow(t)
	if rapid.Bool().Draw(t, "has credit") && with.Validate() == nil {
		*l = with
	}
}

func drawWindow(t *rapid.T) time.Duration {
	return rapid.OneOf(
		rapid.SampledFrom([]time.Duration{
			time.Microsecond, time.Second, time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour,
			31 * 24 * time.Hour, sluice.MaxWindow, 90 * time.Second, 1500 * time.Millisecond,
		}),
		rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64Range(1, sluice.MaxWindow.Microseconds()).Draw(t, "µs")) * time.Microsecond
		}),
	).Draw(t, "window")
}

// drawBurst sets Burst and Debt to what refills within MaxRefill.
func drawBurst(t *rapid.T, l *sluice.Limit) {
	most := big.NewInt(bounds.MaxRefill.Microseconds())
	window := big.NewInt(l.Window.Microseconds())
	if l.Refill != sluice.Continuous {
		most.Div(most, window).Mul(most, big.NewInt(l.Quota))
	} else {
		most.Mul(most, big.NewInt(l.Quota)).Div(most, window)
	}
	units := int64(sluice.MaxQuota)
	if most.IsInt64() {
		units = min(units, most.Int64())
	}
	l.Burst = rapid.Int64Range(0, units).Draw(t, "burst")
	l.Debt = rapid.Int64Range(0, max(0, min(units-l.Full(), sluice.MaxQuota-l.Quota))).Draw(t, "bucket debt")
}

func drawFixed(t *rapid.T, l *sluice.Limit) {
	defer func() {
		if l.Anchor == sluice.OnClock {
			l.InitialDeficit = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, l.Quota)).Draw(t, "deficit of the first window")
		}
	}()
	l.Calendar = sluice.Calendar(rapid.IntRange(0, int(sluice.Year)).Draw(t, "calendar"))
	if l.Calendar == sluice.NoCalendar {
		l.Anchor = rapid.SampledFrom([]sluice.Anchor{sluice.OnClock, sluice.OnFirst}).Draw(t, "anchor")
		return
	}
	l.Window = rapid.SampledFrom([]time.Duration{0, sluice.Limit{Algorithm: sluice.FixedWindow, Calendar: l.Calendar}.Filled().Window}).Draw(t, "calendar window")
	l.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
	if l.Calendar == sluice.Week {
		l.WeekStart = time.Weekday(rapid.IntRange(0, 6).Draw(t, "week start"))
	}
	if rapid.Bool().Draw(t, "from") {
		l.From.Time = time.Duration(rapid.IntRange(0, 24*60-1).Draw(t, "minute")) * time.Minute
		if l.Calendar == sluice.Month {
			l.From.Day = rapid.IntRange(0, 31).Draw(t, "day")
		}
		if l.Calendar == sluice.Year {
			l.From.Month, l.From.Day = time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 29).Draw(t, "day of it")
		}
	}
}
