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
		Name:   rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z0-9._-]{1,64}`)).Draw(t, "name"),
		Quota:  rapid.Int64Range(1, sluice.MaxQuota).Draw(t, "quota"),
		Unit:   rapid.SampledFrom([]sluice.Unit{sluice.Requests, sluice.Bytes}).Draw(t, "unit"),
		Window: drawWindow(t),

		CountDenied: rapid.Bool().Draw(t, "count denied"),
	}
	most := sluice.MaxQuota - l.Quota
	switch rapid.IntRange(0, 7).Draw(t, "algorithm") {
	case 0:
		drawBurst(t, &l, sluice.Continuous)
		return l
	case 1:
		drawToken(t, &l)
		return l
	case 2:
		drawBurst(t, &l, sluice.Continuous)
		l.Algorithm = sluice.LeakyBucket{} // its burst is 1
		l.Algorithm = sluice.LeakyBucket{DelayAfter: rapid.OneOf(rapid.Int64Range(0, l.Full()), rapid.Just(l.Full())).Draw(t, "delay after")}
		return l
	case 3:
		drawFixed(t, &l)
	case 4:
		l.Algorithm = sluice.SlidingLog{}
		l.Quota = rapid.Int64Range(1, bounds.MaxLogQuota).Draw(t, "log quota")
		most = bounds.MaxLogQuota - l.Quota
	case 5:
		c := sluice.SlidingCounter{
			SubWindows: rapid.IntRange(0, bounds.MaxSubWindow).Filter(func(n int) bool {
				return n < 2 || l.Window.Microseconds()%int64(n) == 0
			}).Draw(t, "sub-windows"),
			Conservative: rapid.Bool().Draw(t, "conservative"),
			PreFilled:    rapid.Bool().Draw(t, "pre-filled"),
		}
		c.Strict = !c.Conservative && rapid.Bool().Draw(t, "strict")
		c.Whole = !c.Conservative && !c.Strict && c.SubWindows > 1 && rapid.Bool().Draw(t, "whole")
		l.Quota = min(l.Quota, bounds.MaxCounterQuota(max(c.SubWindows, 1)))
		most = bounds.MaxCounterQuota(max(c.SubWindows, 1)) - l.Quota
		if runs := max(int64(bounds.MaxRefill/(2*l.Window))-2, 0); runs <= most/l.Quota {
			most = runs * l.Quota
		}
		l.Algorithm = c
	case 6:
		l.Algorithm = sluice.SlidingHistogram{Precision: rapid.OneOf(rapid.Just(0), rapid.IntRange(3, 1024)).Draw(t, "precision")}
	case 7:
		l.Unit, l.CountDenied, l.Algorithm = sluice.Requests, false, sluice.Block{For: drawWindow(t)}
		return l
	}
	l.Debt = rapid.Int64Range(0, most).Draw(t, "debt")
	return l
}

func drawToken(t *rapid.T, l *sluice.Limit) {
	b := sluice.TokenBucket{Refill: rapid.SampledFrom([]sluice.Refill{sluice.Continuous, sluice.Interval, sluice.Aligned}).Draw(t, "refill")}
	drawBurst(t, l, b.Refill)
	b.InitialDeficit = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, l.Full())).Draw(t, "deficit")
	b.NextWaits = l.Debt > 0 && rapid.Bool().Draw(t, "next waits")
	l.CountDenied = l.CountDenied && !b.NextWaits && b.Refill != sluice.Aligned
	if !l.CountDenied && b.Refill == sluice.Continuous && b.InitialDeficit == 0 && rapid.Bool().Draw(t, "warms up") {
		b.WarmUp = time.Duration(rapid.Int64Range(1, bounds.MaxWarmUp.Microseconds()).Draw(t, "warm-up")) * time.Microsecond
	}
	l.Algorithm = b
	with := b // credit, if the other options allow it
	with.Credit, with.CreditFor = rapid.Int64Range(1, 1<<20).Draw(t, "credit"), drawWindow(t)
	if rapid.Bool().Draw(t, "has credit") && l.WithAlgorithm(with).Validate() == nil {
		l.Algorithm = with
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

// drawBurst sets Burst and Debt that refill within MaxRefill.
func drawBurst(t *rapid.T, l *sluice.Limit, refill sluice.Refill) {
	most := big.NewInt(bounds.MaxRefill.Microseconds())
	window := big.NewInt(l.Window.Microseconds())
	if refill != sluice.Continuous {
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
	w := sluice.FixedWindow{Calendar: sluice.Calendar(rapid.IntRange(0, int(sluice.Year)).Draw(t, "calendar"))}
	if w.Calendar == sluice.NoCalendar {
		w.OnFirst = rapid.Bool().Draw(t, "on first")
	} else {
		l.Window = rapid.SampledFrom([]time.Duration{0, sluice.Limit{Algorithm: w}.Filled().Window}).Draw(t, "calendar window")
		w.Zone = rapid.SampledFrom(zones).Draw(t, "zone")
	}
	if w.Calendar == sluice.Week {
		w.WeekStart = time.Weekday(rapid.IntRange(0, 6).Draw(t, "week start"))
	}
	if w.Calendar != sluice.NoCalendar && rapid.Bool().Draw(t, "from") {
		w.From.Time = time.Duration(rapid.IntRange(0, 24*60-1).Draw(t, "minute")) * time.Minute
		if w.Calendar == sluice.Month {
			w.From.Day = rapid.IntRange(0, 31).Draw(t, "day")
		}
		if w.Calendar == sluice.Year {
			w.From.Month, w.From.Day = time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 29).Draw(t, "day of it")
		}
	}
	if !w.OnFirst {
		w.InitialDeficit = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, l.Quota)).Draw(t, "deficit of the first window")
	}
	l.Algorithm = w
}
