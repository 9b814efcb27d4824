// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// faultyFields returns the field of every fault in err, sorted.
func faultyFields(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("got %T, want joined faults", err)
	}
	var fields []string
	for _, e := range joined.Unwrap() {
		var fault *sluice.LimitError
		if !errors.As(e, &fault) {
			t.Fatalf("fault %T %v, want a *LimitError", e, e)
		}
		if fault.Problem == "" || !strings.Contains(err.Error(), fault.Field+": "+fault.Problem) {
			t.Errorf("fault %+v is not in %q", fault, err)
		}
		fields = append(fields, fault.Field)
	}
	slices.Sort(fields)
	return fields
}

func TestLimitValidateNamesEveryFault(t *testing.T) {
	const tooMany = sluice.MaxQuota + 1
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		want  []string
	}{
		{"zero", sluice.Limit{}, []string{"Quota", "Window"}},
		{"least", sluice.Per(1, time.Microsecond), nil},
		{"most", sluice.Per(sluice.MaxQuota, sluice.MaxWindow), nil},
		{"credit", sluice.Limit{Quota: 5, Window: time.Second, Credit: 3, CreditFor: time.Hour}, nil},
		{"credit without a time", sluice.Limit{Quota: 5, Window: time.Second, Credit: 3}, []string{"CreditFor"}},
		{"credit for a part of a µs", sluice.Limit{Quota: 5, Window: time.Second, Credit: 3, CreditFor: 1500}, []string{"CreditFor"}},
		{"credit for too long", sluice.Limit{Quota: 5, Window: time.Second, Credit: 3, CreditFor: sluice.MaxWindow + time.Microsecond}, []string{"CreditFor"}},
		{"credit-for without credit", sluice.Limit{Quota: 5, Window: time.Second, CreditFor: time.Hour}, []string{"CreditFor"}},
		{"credit negative", sluice.Limit{Quota: 5, Window: time.Second, Credit: -1, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit above", sluice.Limit{Quota: 5, Window: time.Second, Credit: tooMany, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit and burst above", sluice.Limit{Quota: sluice.MaxQuota, Window: time.Second, Credit: 1, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit of years", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Credit: 2, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit of a leaky bucket", sluice.Limit{Algorithm: sluice.LeakyBucket, Quota: 5, Window: time.Second, Credit: 3, CreditFor: time.Hour}, []string{"Credit", "CreditFor"}},
		{"credit of refills", sluice.Limit{Quota: 5, Window: time.Second, Refill: sluice.Interval, Credit: 3, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit and initial", sluice.Limit{Quota: 5, Window: time.Second, InitialDeficit: 1, Credit: 3, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit and next-waits", sluice.Limit{Quota: 5, Window: time.Second, Debt: 2, NextWaits: true, Credit: 3, CreditFor: time.Hour}, []string{"Credit"}},
		{"credit and denials", sluice.Limit{Quota: 5, Window: time.Second, CountDenied: true, Credit: 3, CreditFor: time.Hour}, []string{"Credit"}},
		{"quota zero", sluice.PerMinute(0), []string{"Quota"}},
		{"quota negative", sluice.PerMinute(-1), []string{"Quota"}},
		{"quota smallest", sluice.PerMinute(math.MinInt64), []string{"Quota"}},
		{"quota above", sluice.PerMinute(tooMany), []string{"Quota"}},
		{"quota largest", sluice.PerMinute(math.MaxInt64), []string{"Quota"}},
		{"window negative", sluice.Per(1, -time.Second), []string{"Window"}},
		{"window smallest", sluice.Per(1, math.MinInt64), []string{"Window", "Window"}},
		{"window of 1 ns", sluice.Per(1, 1), []string{"Window", "Window"}},
		{"window of 1.5 µs", sluice.Per(1, 1500), []string{"Window"}},
		{"window above", sluice.Per(1, sluice.MaxWindow+time.Microsecond), []string{"Window"}},
		{"window above and not whole", sluice.Per(1, sluice.MaxWindow+1), []string{"Window", "Window"}},
		{"debt negative", sluice.Limit{Quota: 1, Window: 1000, Debt: -1}, []string{"Debt"}},
		{"debt largest", sluice.Limit{Quota: 1, Window: 1000, Debt: math.MaxInt64}, []string{"Debt"}},
		{"debt smallest", sluice.Limit{Quota: 1, Window: 1000, Debt: math.MinInt64, Algorithm: sluice.SlidingLog}, []string{"Debt"}},
		{"name too long", sluice.PerMinute(1).WithName(strings.Repeat("a", 65)), []string{"Name"}},
		{"name longest", sluice.PerMinute(1).WithName(strings.Repeat("a", 64)), nil},
		{"name of all letters", sluice.PerMinute(1).WithName("az09._-"), nil},
		{"name upper case", sluice.PerMinute(1).WithName("Login"), []string{"Name"}},
		{"name with space", sluice.PerMinute(1).WithName("a b"), []string{"Name"}},
		{"name not ASCII", sluice.PerMinute(1).WithName("é"), []string{"Name"}},
		{"unknown algorithm hides no other fault", sluice.Limit{Algorithm: 99, Unit: 99, Quota: -1, Burst: 5}, []string{"Algorithm", "Quota", "Unit", "Window"}},

		{"burst negative", sluice.PerMinute(1).WithBurst(-1), []string{"Burst"}},
		{"burst smallest", sluice.PerMinute(1).WithBurst(math.MinInt64), []string{"Burst"}},
		{"burst largest", sluice.PerMinute(1).WithBurst(math.MaxInt64), []string{"Burst"}},
		{"burst and debt refill just in time", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Burst: 1, Debt: 1}, nil},
		{"burst and debt refill too late", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Burst: 1, Debt: 2}, []string{"Burst"}},
		{"burst and debt refill one unit too late", sluice.Limit{Quota: 1000, Window: sluice.MaxWindow, Burst: 1001, Debt: 1000}, []string{"Burst"}},
		{"burst and debt at their largest", sluice.Limit{Quota: 1 << 52, Window: time.Second, Burst: sluice.MaxQuota - 5, Debt: 5}, nil},
		{"burst and debt one above", sluice.Limit{Quota: 1 << 52, Window: time.Second, Burst: sluice.MaxQuota - 5, Debt: 6}, []string{"Debt"}},
		{"quota and debt at their largest", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: sluice.MaxQuota - 5, Window: time.Second, Debt: 5}, nil},
		{"quota and debt one above", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: sluice.MaxQuota - 5, Window: time.Second, Debt: 6}, []string{"Debt"}},
		{"quota and debt both at their largest", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: sluice.MaxQuota, Window: time.Second, Debt: sluice.MaxQuota}, []string{"Debt"}},
		{"quota of a bucket and debt one above", sluice.Limit{Quota: sluice.MaxQuota, Window: time.Second, Burst: 1, Debt: 1}, []string{"Debt"}},
		{"a full bucket at the slowest rate", sluice.Limit{Quota: 1, Window: time.Second, Burst: sluice.MaxQuota}, []string{"Burst"}},
		{"intervals refill just in time", sluice.Limit{Quota: 3, Window: sluice.MaxWindow, Refill: sluice.Interval, Burst: 4, Debt: 2}, nil},
		{"intervals refill too late", sluice.Limit{Quota: 3, Window: sluice.MaxWindow, Refill: sluice.Interval, Burst: 4, Debt: 3}, []string{"Burst"}},
		{"unknown refill", sluice.Limit{Quota: 1, Window: 1000, Refill: 3}, []string{"Refill"}},
		{"no initial units", sluice.Limit{Quota: 9, Window: 1000, InitialDeficit: 9}, nil},
		{"initial deficit above the burst", sluice.Limit{Quota: 9, Window: 1000, Burst: 3, InitialDeficit: 4}, []string{"InitialDeficit"}},
		{"initial deficit negative", sluice.Limit{Quota: 9, Window: 1000, InitialDeficit: -1}, []string{"InitialDeficit"}},
		{"the next waits", sluice.Limit{Quota: 9, Window: 1000, NextWaits: true, Debt: 1}, nil},
		{"a warm-up", sluice.Limit{Quota: 9, Window: 1000, WarmUp: bounds.MaxWarmUp}, nil},
		{"a warm-up too short", sluice.Limit{Quota: 9, Window: 1000, WarmUp: 1}, []string{"WarmUp", "WarmUp"}},
		{"a warm-up too long", sluice.Limit{Quota: 9, Window: 1000, WarmUp: bounds.MaxWarmUp + time.Microsecond}, []string{"WarmUp"}},
		{"a warm-up before now", sluice.Limit{Quota: 9, Window: 1000, WarmUp: -time.Second}, []string{"WarmUp"}},
		{"a warm-up of parts of a µs", sluice.Limit{Quota: 9, Window: 1000, WarmUp: time.Second + 1}, []string{"WarmUp"}},
		{"a warm-up by intervals", sluice.Limit{Quota: 9, Window: 1000, WarmUp: time.Second, Refill: sluice.Interval}, []string{"Refill"}},
		{"a warm-up that starts with none and counts denials", sluice.Limit{Quota: 9, Window: 1000, WarmUp: time.Second, InitialDeficit: 1, CountDenied: true}, []string{"CountDenied", "InitialDeficit"}},
		{"the next waits for nothing", sluice.Limit{Quota: 9, Window: 1000, NextWaits: true}, []string{"NextWaits"}},
		{"delay after all", sluice.Limit{Algorithm: sluice.LeakyBucket, Quota: 9, Window: 1000, Burst: 3, DelayAfter: 3}, nil},
		{"delay after more than the burst", sluice.Limit{Algorithm: sluice.LeakyBucket, Quota: 9, Window: 1000, Burst: 3, DelayAfter: 4}, []string{"DelayAfter"}},
		{"delay after more than the default burst", sluice.Limit{Algorithm: sluice.LeakyBucket, Quota: 9, Window: 1000, DelayAfter: 2}, []string{"DelayAfter"}},
		{
			"all faults of a token bucket",
			sluice.Limit{Name: "A", Unit: 2, Quota: -1, Window: -1, Burst: -1, Debt: -1, Refill: 9, InitialDeficit: -1, DelayAfter: 1},
			[]string{"Burst", "Debt", "DelayAfter", "InitialDeficit", "Name", "Quota", "Refill", "Unit", "Window", "Window"},
		},

		{"quota of a counter at its largest", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1<<52 - 7, Window: time.Second, Debt: 5}, nil},
		{"quota of a counter one above", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1<<52 - 7, Window: time.Second, Debt: 6}, []string{"Quota"}},
		{"quota of a counter of 3 sub-windows at its largest", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1<<51 - 2, Window: 3 * time.Second, SubWindows: 3}, nil},
		{"quota of a counter of 3 sub-windows one above", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1<<51 - 1, Window: 3 * time.Second, SubWindows: 3}, []string{"Quota"}},
		{"quota of a counter above that of any limit", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: tooMany, Window: time.Second}, []string{"Quota"}},

		{"strays of a token bucket", strays(sluice.TokenBucket), []string{
			"Anchor", "Calendar", "Conservative", "CountDenied", "CountDenied", "DelayAfter", "InitialDeficit", "PreFilled", "Precision", "Refill", "Strict", "SubWindows", "WeekStart", "Zone",
		}},
		{"strays of a leaky bucket", strays(sluice.LeakyBucket), []string{
			"Anchor", "Calendar", "Conservative", "InitialDeficit", "NextWaits", "PreFilled", "Precision", "Refill", "Strict", "SubWindows", "WarmUp", "WeekStart", "Zone",
		}},
		{"strays of a sliding log", strays(sluice.SlidingLog), []string{
			"Anchor", "Burst", "Calendar", "Conservative", "DelayAfter", "InitialDeficit", "NextWaits", "PreFilled", "Precision", "Refill", "Strict", "SubWindows", "WarmUp", "WeekStart", "Zone",
		}},
		{"strays of a sliding counter", strays(sluice.SlidingCounter), []string{
			"Anchor", "Burst", "Calendar", "DelayAfter", "InitialDeficit", "NextWaits", "Precision", "Refill", "Strict", "WarmUp", "WeekStart", "Zone",
		}},
		{"strays of a sliding histogram", strays(sluice.SlidingHistogram), []string{
			"Anchor", "Burst", "Calendar", "Conservative", "DelayAfter", "InitialDeficit", "NextWaits", "PreFilled", "Refill", "Strict", "SubWindows", "WarmUp", "WeekStart", "Zone",
		}},
		{"strays of a fixed window", strays(sluice.FixedWindow), []string{
			"Anchor", "Burst", "Conservative", "DelayAfter", "InitialDeficit", "NextWaits", "PreFilled", "Precision", "Refill", "Strict", "SubWindows", "WarmUp",
		}},

		{"block", sluice.Limit{Algorithm: sluice.Block, Quota: 1, Window: 1000, BlockFor: 1000}, nil},
		{"block, longest", sluice.Limit{Algorithm: sluice.Block, Quota: sluice.MaxQuota, Window: sluice.MaxWindow, BlockFor: sluice.MaxWindow}, nil},
		{"block for no time", sluice.Limit{Algorithm: sluice.Block, Quota: 1, Window: 1000}, []string{"BlockFor"}},
		{"block for too long", sluice.Limit{Algorithm: sluice.Block, Quota: 1, Window: 1000, BlockFor: sluice.MaxWindow + 1000}, []string{"BlockFor"}},
		{"block for a part of a µs", sluice.Limit{Algorithm: sluice.Block, Quota: 1, Window: 1000, BlockFor: 1001}, []string{"BlockFor"}},
		{"block of bytes, with a debt", sluice.Limit{Algorithm: sluice.Block, Quota: 1, Window: 1000, BlockFor: 1000, Unit: sluice.Bytes, Debt: 1}, []string{"Debt", "Unit"}},
		{"block for of another", sluice.Limit{Quota: 1, Window: 1000, BlockFor: 1000}, []string{"BlockFor"}},
		{"strays of a block", strays(sluice.Block), []string{
			"Anchor", "BlockFor", "Burst", "Calendar", "Conservative", "CountDenied", "Debt", "DelayAfter", "InitialDeficit", "NextWaits", "PreFilled", "Precision", "Refill", "Strict", "SubWindows", "WarmUp", "WeekStart", "Zone",
		}},

		{"unknown anchor", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Window: 1000, Anchor: 2}, []string{"Anchor"}},
		{"unknown calendar", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: 9}, []string{"Calendar"}},
		{"calendar with its nominal window", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Month, Window: 31 * day}, nil},
		{"calendar with another window and zone", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Month, Window: 30 * day, Zone: "Mars/Olympus"}, []string{"Window", "Zone"}},
		{"zone of this machine", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Day, Zone: "Local"}, []string{"Zone"}},
		{"zone outside the zone files", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Day, Zone: "../passwd"}, []string{"Zone"}},
		{"zone without calendar", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Window: day, Zone: "Asia/Seoul"}, []string{"Zone"}},
		{"start of a week in a month", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Month, WeekStart: time.Monday}, []string{"WeekStart"}},
		{"start of a week on no day", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Week, WeekStart: 7}, []string{"WeekStart"}},
		{"start of a week before Sunday", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 1, Calendar: sluice.Week, WeekStart: -1}, []string{"WeekStart"}},

		{"log at its largest", sluice.Limit{Algorithm: sluice.SlidingLog, Quota: bounds.MaxLogQuota - 1, Window: 1000, Debt: 1}, nil},
		{"log too large", sluice.Limit{Algorithm: sluice.SlidingLog, Quota: bounds.MaxLogQuota + 1, Window: 1000}, []string{"Quota"}},
		{"log too large with its debt", sluice.Limit{Algorithm: sluice.SlidingLog, Quota: bounds.MaxLogQuota, Window: 1000, Debt: 1}, []string{"Quota"}},
		{"log of the largest numbers", sluice.Limit{Algorithm: sluice.SlidingLog, Quota: math.MaxInt64, Window: 1000, Debt: math.MaxInt64}, []string{"Debt", "Quota", "Quota"}},

		{"strict", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Minute, Strict: true}, nil},
		{"strict and conservative", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Minute, Strict: true, Conservative: true}, []string{"Strict"}},
		{"sub-windows that divide", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Minute, SubWindows: 1000}, nil},
		{"sub-windows that do not", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Minute, SubWindows: 7}, []string{"SubWindows"}},
		{"sub-windows below 1 µs", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Microsecond, SubWindows: 2}, []string{"SubWindows"}},
		{"sub-windows negative", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: time.Minute, SubWindows: -1}, []string{"SubWindows"}},
		{"sub-windows too many", sluice.Limit{Algorithm: sluice.SlidingCounter, Quota: 1, Window: 1025 * time.Second, SubWindows: 1025}, []string{"SubWindows"}},
		{"precision least", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: 1, Window: 1000, Precision: 3}, nil},
		{"precision too small", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: 1, Window: 1000, Precision: 2}, []string{"Precision"}},
		{"precision too large", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: 1, Window: 1000, Precision: 1025}, []string{"Precision"}},
		{"precision negative", sluice.Limit{Algorithm: sluice.SlidingHistogram, Quota: 1, Window: 1000, Precision: math.MinInt}, []string{"Precision"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := faultyFields(t, c.limit.Validate()); !slices.Equal(got, c.want) {
				t.Errorf("faults in %v, want %v\n%v", got, c.want, c.limit.Validate())
			}
		})
	}
}

// strays returns a limit that has a value in every field of any algorithm.
func strays(a sluice.Algorithm) sluice.Limit {
	return sluice.Limit{
		Algorithm: a, Quota: 10, Burst: 3, Refill: sluice.Interval, InitialDeficit: 1, NextWaits: true, WarmUp: time.Second, Debt: 1, DelayAfter: 1,
		Anchor: sluice.OnFirst, Calendar: sluice.Week, Zone: "Asia/Seoul", WeekStart: time.Monday,
		CountDenied: true, SubWindows: 1, Conservative: true, Strict: true, PreFilled: true, Precision: 3,
	}
}

// TestAnyLimitIsSafe: whatever a Limit holds, its methods do not panic, and
// Compile takes it if and only if Validate does.
func TestAnyLimitIsSafe(t *testing.T) {
	small := func(t *rapid.T, label string) uint8 { return rapid.Uint8Range(0, 8).Draw(t, label) }
	rapid.Check(t, func(t *rapid.T) {
		l := sluice.Limit{
			Name:           rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "name"),
			Algorithm:      sluice.Algorithm(small(t, "algorithm")),
			Quota:          rapid.Int64().Draw(t, "quota"),
			Unit:           sluice.Unit(small(t, "unit") / 4),
			Window:         time.Duration(rapid.Int64().Draw(t, "window")),
			Burst:          rapid.Int64().Draw(t, "burst"),
			Debt:           rapid.Int64().Draw(t, "debt"),
			Refill:         sluice.Refill(small(t, "refill") / 2),
			InitialDeficit: rapid.Int64().Draw(t, "deficit"),
			NextWaits:      rapid.Bool().Draw(t, "next waits"),
			WarmUp:         rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, bounds.MaxWarmUp}).Draw(t, "warm-up"),
			DelayAfter:     rapid.Int64().Draw(t, "delay after"),
			Anchor:         sluice.Anchor(small(t, "anchor") / 4),
			Calendar:       sluice.Calendar(small(t, "calendar")),
			Zone:           rapid.OneOf(rapid.SampledFrom(zones), rapid.String()).Draw(t, "zone"),
			WeekStart:      time.Weekday(rapid.Int().Draw(t, "week start")),
			CountDenied:    rapid.Bool().Draw(t, "count denied"),
			SubWindows:     rapid.Int().Draw(t, "sub-windows"),
			Conservative:   rapid.Bool().Draw(t, "conservative"),
			Strict:         rapid.Bool().Draw(t, "strict"),
			PreFilled:      rapid.Bool().Draw(t, "pre-filled"),
			Precision:      rapid.Int().Draw(t, "precision"),
		}
		if text := l.String(); text == "" {
			t.Fatal("no text")
		}
		l.Full()
		invalid := l.Validate()
		_, refused := sluice.Compile("any", l)
		if (invalid == nil) != (refused == nil) {
			t.Fatalf("Validate says %v, Compile says %v", invalid, refused)
		}
	})
}

func TestLimitFilledStatesEveryDefault(t *testing.T) {
	for _, c := range []struct {
		name        string
		limit, want sluice.Limit
	}{
		{"token bucket", sluice.PerMinute(9), sluice.Limit{Name: "token-bucket.min", Quota: 9, Window: time.Minute, Burst: 9}},
		{"token bucket with burst", sluice.PerMinute(9).WithBurst(2), sluice.Limit{Name: "token-bucket.min", Quota: 9, Window: time.Minute, Burst: 2}},
		{"leaky bucket", sluice.PerMinute(9).WithAlgorithm(sluice.LeakyBucket), sluice.Limit{Name: "leaky-bucket.min", Algorithm: sluice.LeakyBucket, Quota: 9, Window: time.Minute, Burst: 1, DelayAfter: 1}},
		{"fixed window", sluice.PerMinute(9).WithAlgorithm(sluice.FixedWindow), sluice.Limit{Name: "fixed-window.min", Algorithm: sluice.FixedWindow, Quota: 9, Window: time.Minute}},
		{"calendar", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 9, Calendar: sluice.Month}, sluice.Limit{Name: "fixed-window.month.utc", Algorithm: sluice.FixedWindow, Quota: 9, Window: 31 * day, Calendar: sluice.Month, Zone: "UTC"}},
		{"calendar of a zone east of GMT", sluice.Limit{Algorithm: sluice.FixedWindow, Quota: 9, Calendar: sluice.Day, Zone: "Etc/GMT+5"}, sluice.Limit{Name: "fixed-window.day.etc-gmtp5", Algorithm: sluice.FixedWindow, Quota: 9, Window: day, Calendar: sluice.Day, Zone: "Etc/GMT+5"}},
		{"sliding log of bytes", sluice.Limit{Algorithm: sluice.SlidingLog, Unit: sluice.Bytes, Quota: 9, Window: 90 * time.Second}, sluice.Limit{Name: "sliding-log.90s.bytes", Algorithm: sluice.SlidingLog, Unit: sluice.Bytes, Quota: 9, Window: 90 * time.Second}},
		{"sliding counter", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingCounter), sluice.Limit{Name: "sliding-counter.min", Algorithm: sluice.SlidingCounter, Quota: 9, Window: time.Minute, SubWindows: 1}},
		{"sliding histogram", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingHistogram), sluice.Limit{Name: "sliding-histogram.min", Algorithm: sluice.SlidingHistogram, Quota: 9, Window: time.Minute, Precision: bounds.DefaultPrecision}},
		{"named", sluice.PerMinute(9).WithName("x"), sluice.Limit{Name: "x", Quota: 9, Window: time.Minute, Burst: 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.limit.Filled()
			if got != c.want {
				t.Errorf("Filled = %+v, want %+v", got, c.want)
			}
			if again := got.Filled(); again != got {
				t.Errorf("filled twice = %+v, want %+v", again, got)
			}
			if err := got.Validate(); err != nil {
				t.Errorf("the filled limit is refused: %v", err)
			}
		})
	}
}

func TestLimitFull(t *testing.T) {
	for _, c := range []struct {
		limit sluice.Limit
		want  int64
	}{
		{sluice.PerMinute(9), 9},
		{sluice.PerMinute(9).WithBurst(20), 20},
		{sluice.Limit{Quota: 9, Window: time.Minute, Burst: 3, Debt: 5}, 3},
		{sluice.Limit{Quota: 9, Window: time.Minute, Burst: 3, Debt: 5, NextWaits: true}, 8},
		{sluice.PerMinute(9).WithAlgorithm(sluice.LeakyBucket), 1},
		{sluice.PerMinute(9).WithAlgorithm(sluice.FixedWindow), 9},
		{sluice.PerMinute(9).WithAlgorithm(sluice.SlidingHistogram), 9},
		{sluice.MustParseLimit("9/min block 1h"), sluice.MaxQuota},
	} {
		if got := c.limit.Full(); got != c.want {
			t.Errorf("Full of %v = %d, want %d", c.limit, got, c.want)
		}
	}
}
