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
		{"credit", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: 3, CreditFor: time.Hour}}, nil},
		{"credit without a time", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: 3}}, []string{"CreditFor"}},
		{"credit for a part of a µs", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: 3, CreditFor: 1500}}, []string{"CreditFor"}},
		{"credit for too long", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: 3, CreditFor: sluice.MaxWindow + time.Microsecond}}, []string{"CreditFor"}},
		{"credit-for without credit", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{CreditFor: time.Hour}}, []string{"CreditFor"}},
		{"credit negative", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: -1, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit above", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: tooMany, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit and burst above", sluice.Limit{Quota: sluice.MaxQuota, Window: time.Second, Algorithm: sluice.TokenBucket{Credit: 1, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit of years", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Algorithm: sluice.TokenBucket{Credit: 2, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit of refills", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{Refill: sluice.Interval, Credit: 3, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit and initial", sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{InitialDeficit: 1, Credit: 3, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit and next-waits", sluice.Limit{Quota: 5, Window: time.Second, Debt: 2, Algorithm: sluice.TokenBucket{NextWaits: true, Credit: 3, CreditFor: time.Hour}}, []string{"Credit"}},
		{"credit and denials", sluice.Limit{Quota: 5, Window: time.Second, CountDenied: true, Algorithm: sluice.TokenBucket{Credit: 3, CreditFor: time.Hour}}, []string{"Credit"}},
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
		{"debt smallest", sluice.Limit{Quota: 1, Window: 1000, Debt: math.MinInt64, Algorithm: sluice.SlidingLog{}}, []string{"Debt"}},
		{"name too long", sluice.PerMinute(1).WithName(strings.Repeat("a", 65)), []string{"Name"}},
		{"name longest", sluice.PerMinute(1).WithName(strings.Repeat("a", 64)), nil},
		{"name of all letters", sluice.PerMinute(1).WithName("az09._-"), nil},
		{"name upper case", sluice.PerMinute(1).WithName("Login"), []string{"Name"}},
		{"name with space", sluice.PerMinute(1).WithName("a b"), []string{"Name"}},
		{"name not ASCII", sluice.PerMinute(1).WithName("é"), []string{"Name"}},

		{"a pointer hides no other fault", sluice.Limit{Algorithm: &sluice.TokenBucket{}, Unit: 99, Quota: -1, Burst: 5}, []string{"Algorithm", "Quota", "Unit", "Window"}},

		{"burst negative", sluice.PerMinute(1).WithBurst(-1), []string{"Burst"}},
		{"burst smallest", sluice.PerMinute(1).WithBurst(math.MinInt64), []string{"Burst"}},
		{"burst largest", sluice.PerMinute(1).WithBurst(math.MaxInt64), []string{"Burst"}},
		{"burst and debt refill just in time", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Burst: 1, Debt: 1}, nil},
		{"burst and debt refill too late", sluice.Limit{Quota: 1, Window: sluice.MaxWindow, Burst: 1, Debt: 2}, []string{"Burst"}},
		{"burst and debt refill one unit too late", sluice.Limit{Quota: 1000, Window: sluice.MaxWindow, Burst: 1001, Debt: 1000}, []string{"Burst"}},
		{"burst and debt at their largest", sluice.Limit{Quota: 1 << 52, Window: time.Second, Burst: sluice.MaxQuota - 5, Debt: 5}, nil},
		{"burst and debt one above", sluice.Limit{Quota: 1 << 52, Window: time.Second, Burst: sluice.MaxQuota - 5, Debt: 6}, []string{"Debt"}},
		{"quota and debt at their largest", sluice.Limit{Algorithm: sluice.SlidingHistogram{}, Quota: sluice.MaxQuota - 5, Window: time.Second, Debt: 5}, nil},
		{"quota and debt one above", sluice.Limit{Algorithm: sluice.SlidingHistogram{}, Quota: sluice.MaxQuota - 5, Window: time.Second, Debt: 6}, []string{"Debt"}},
		{"quota and debt both at their largest", sluice.Limit{Algorithm: sluice.FixedWindow{}, Quota: sluice.MaxQuota, Window: time.Second, Debt: sluice.MaxQuota}, []string{"Debt"}},
		{"quota of a bucket and debt one above", sluice.Limit{Quota: sluice.MaxQuota, Window: time.Second, Burst: 1, Debt: 1}, []string{"Debt"}},
		{"a full bucket at the slowest rate", sluice.Limit{Quota: 1, Window: time.Second, Burst: sluice.MaxQuota}, []string{"Burst"}},
		{"intervals refill just in time", sluice.Limit{Quota: 3, Window: sluice.MaxWindow, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}, Burst: 4, Debt: 2}, nil},
		{"intervals refill too late", sluice.Limit{Quota: 3, Window: sluice.MaxWindow, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}, Burst: 4, Debt: 3}, []string{"Burst"}},
		{"unknown refill", sluice.Limit{Quota: 1, Window: 1000, Algorithm: sluice.TokenBucket{Refill: 3}}, []string{"Refill"}},
		{"no initial units", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{InitialDeficit: 9}}, nil},
		{"initial deficit above the burst", sluice.Limit{Quota: 9, Window: 1000, Burst: 3, Algorithm: sluice.TokenBucket{InitialDeficit: 4}}, []string{"InitialDeficit"}},
		{"initial deficit negative", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{InitialDeficit: -1}}, []string{"InitialDeficit"}},
		{"the next waits", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{NextWaits: true}, Debt: 1}, nil},
		{"a warm-up", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: bounds.MaxWarmUp}}, nil},
		{"a warm-up too short", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: 1}}, []string{"WarmUp", "WarmUp"}},
		{"a warm-up too long", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: bounds.MaxWarmUp + time.Microsecond}}, []string{"WarmUp"}},
		{"a warm-up before now", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: -time.Second}}, []string{"WarmUp"}},
		{"a warm-up of parts of a µs", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: time.Second + 1}}, []string{"WarmUp"}},
		{"a warm-up by intervals", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: time.Second, Refill: sluice.Interval}}, []string{"Refill"}},
		{"a warm-up that starts with none and counts denials", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{WarmUp: time.Second, InitialDeficit: 1}, CountDenied: true}, []string{"CountDenied", "InitialDeficit"}},
		{"the next waits for nothing", sluice.Limit{Quota: 9, Window: 1000, Algorithm: sluice.TokenBucket{NextWaits: true}}, []string{"NextWaits"}},
		{"delay after all", sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 3}, Quota: 9, Window: 1000, Burst: 3}, nil},
		{"delay after more than the burst", sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 4}, Quota: 9, Window: 1000, Burst: 3}, []string{"DelayAfter"}},
		{"delay after more than the default burst", sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 2}, Quota: 9, Window: 1000}, []string{"DelayAfter"}},
		{
			"all faults of a token bucket",
			sluice.Limit{Name: "A", Unit: 2, Quota: -1, Window: -1, Burst: -1, Debt: -1, Algorithm: sluice.TokenBucket{Refill: 9, InitialDeficit: -1}},
			[]string{"Burst", "Debt", "InitialDeficit", "Name", "Quota", "Refill", "Unit", "Window", "Window"},
		},

		{"quota of a counter at its largest", sluice.Limit{Algorithm: sluice.SlidingCounter{}, Quota: 1<<52 - 7, Window: time.Second, Debt: 5}, nil},
		{"quota of a counter one above", sluice.Limit{Algorithm: sluice.SlidingCounter{}, Quota: 1<<52 - 7, Window: time.Second, Debt: 6}, []string{"Quota"}},
		{"quota of a counter of 3 sub-windows at its largest", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 3}, Quota: 1<<51 - 2, Window: 3 * time.Second}, nil},
		{"quota of a counter of 3 sub-windows one above", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 3}, Quota: 1<<51 - 1, Window: 3 * time.Second}, []string{"Quota"}},
		{"quota of a counter above that of any limit", sluice.Limit{Algorithm: sluice.SlidingCounter{}, Quota: tooMany, Window: time.Second}, []string{"Quota"}},

		{"burst of a sliding log", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingLog{}).WithBurst(3), []string{"Burst"}},
		{"burst of a sliding counter", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingCounter{}).WithBurst(3), []string{"Burst"}},
		{"burst of a sliding histogram", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingHistogram{}).WithBurst(3), []string{"Burst"}},
		{"burst of a fixed window", sluice.PerMinute(9).WithAlgorithm(sluice.FixedWindow{}).WithBurst(3), []string{"Burst"}},
		{"burst of a block", sluice.PerMinute(9).WithAlgorithm(sluice.Block{For: time.Hour}).WithBurst(3), []string{"Burst"}},

		{"pointer to an algorithm", sluice.PerMinute(9).WithAlgorithm(&sluice.SlidingLog{}), []string{"Algorithm"}},
		{"nil pointer to one", sluice.PerMinute(9).WithAlgorithm((*sluice.TokenBucket)(nil)), []string{"Algorithm"}},
		{"an algorithm of somebody else", sluice.PerMinute(9).WithAlgorithm(embedder{}), []string{"Algorithm"}},

		{"block", sluice.Limit{Algorithm: sluice.Block{For: 1000}, Quota: 1, Window: 1000}, nil},
		{"block, longest", sluice.Limit{Algorithm: sluice.Block{For: sluice.MaxWindow}, Quota: sluice.MaxQuota, Window: sluice.MaxWindow}, nil},
		{"block for no time", sluice.Limit{Algorithm: sluice.Block{}, Quota: 1, Window: 1000}, []string{"For"}},
		{"block for too long", sluice.Limit{Algorithm: sluice.Block{For: sluice.MaxWindow + 1000}, Quota: 1, Window: 1000}, []string{"For"}},
		{"block for a part of a µs", sluice.Limit{Algorithm: sluice.Block{For: 1001}, Quota: 1, Window: 1000}, []string{"For"}},
		{"block of bytes, with a debt", sluice.Limit{Algorithm: sluice.Block{For: 1000}, Quota: 1, Window: 1000, Unit: sluice.Bytes, Debt: 1}, []string{"Debt", "Unit"}},

		{"unknown calendar", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: 9}, Quota: 1}, []string{"Calendar"}},
		{"calendar with its nominal window", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month}, Quota: 1, Window: 31 * day}, nil},
		{"calendar with another window and zone", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "Mars/Olympus"}, Quota: 1, Window: 30 * day}, []string{"Window", "Zone"}},
		{"zone of this machine", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Local"}, Quota: 1}, []string{"Zone"}},
		{"zone outside the zone files", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "../passwd"}, Quota: 1}, []string{"Zone"}},
		{"zone without calendar", sluice.Limit{Algorithm: sluice.FixedWindow{Zone: "Asia/Seoul"}, Quota: 1, Window: day}, []string{"Zone"}},
		{"start of a week in a month", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, WeekStart: time.Monday}, Quota: 1}, []string{"WeekStart"}},
		{"start of a week on no day", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, WeekStart: 7}, Quota: 1}, []string{"WeekStart"}},
		{"start of a week before Sunday", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, WeekStart: -1}, Quota: 1}, []string{"WeekStart"}},

		{"log at its largest", sluice.Limit{Algorithm: sluice.SlidingLog{}, Quota: bounds.MaxLogQuota - 1, Window: 1000, Debt: 1}, nil},
		{"log too large", sluice.Limit{Algorithm: sluice.SlidingLog{}, Quota: bounds.MaxLogQuota + 1, Window: 1000}, []string{"Quota"}},
		{"log too large with its debt", sluice.Limit{Algorithm: sluice.SlidingLog{}, Quota: bounds.MaxLogQuota, Window: 1000, Debt: 1}, []string{"Quota"}},
		{"log of the largest numbers", sluice.Limit{Algorithm: sluice.SlidingLog{}, Quota: math.MaxInt64, Window: 1000, Debt: math.MaxInt64}, []string{"Debt", "Quota", "Quota"}},

		{"strict", sluice.Limit{Algorithm: sluice.SlidingCounter{Strict: true}, Quota: 1, Window: time.Minute}, nil},
		{"strict and conservative", sluice.Limit{Algorithm: sluice.SlidingCounter{Strict: true, Conservative: true}, Quota: 1, Window: time.Minute}, []string{"Strict"}},
		{"sub-windows that divide", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 1000}, Quota: 1, Window: time.Minute}, nil},
		{"sub-windows that do not", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 7}, Quota: 1, Window: time.Minute}, []string{"SubWindows"}},
		{"sub-windows below 1 µs", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 2}, Quota: 1, Window: time.Microsecond}, []string{"SubWindows"}},
		{"sub-windows negative", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: -1}, Quota: 1, Window: time.Minute}, []string{"SubWindows"}},
		{"sub-windows too many", sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 1025}, Quota: 1, Window: 1025 * time.Second}, []string{"SubWindows"}},
		{"precision least", sluice.Limit{Algorithm: sluice.SlidingHistogram{Precision: 3}, Quota: 1, Window: 1000}, nil},
		{"precision too small", sluice.Limit{Algorithm: sluice.SlidingHistogram{Precision: 2}, Quota: 1, Window: 1000}, []string{"Precision"}},
		{"precision too large", sluice.Limit{Algorithm: sluice.SlidingHistogram{Precision: 1025}, Quota: 1, Window: 1000}, []string{"Precision"}},
		{"precision negative", sluice.Limit{Algorithm: sluice.SlidingHistogram{Precision: math.MinInt}, Quota: 1, Window: 1000}, []string{"Precision"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := faultyFields(t, c.limit.Validate()); !slices.Equal(got, c.want) {
				t.Errorf("faults in %v, want %v\n%v", got, c.want, c.limit.Validate())
			}
		})
	}
}

// embedder is an algorithm as the compiler sees it, and cannot be compared.
type embedder struct {
	sluice.SlidingLog
	_ func()
}

// TestAlgorithmsAreValues: the error for a pointer to an algorithm names the value to use.
func TestAlgorithmsAreValues(t *testing.T) {
	for _, c := range []struct {
		algorithm sluice.Algorithm
		want      string
	}{
		{&sluice.FixedWindow{Calendar: sluice.Day}, "sluice: limit: Algorithm: *sluice.FixedWindow is not one of the algorithms; use one as a value, such as SlidingLog{}"},
		{(*sluice.Block)(nil), "sluice: limit: Algorithm: *sluice.Block is not one of the algorithms; use one as a value, such as SlidingLog{}"},
	} {
		l := sluice.PerMinute(5).WithAlgorithm(c.algorithm)
		if err := l.Validate(); err == nil || err.Error() != c.want {
			t.Errorf("%v: got %v, want %s", l, err, c.want)
		}
		if _, err := sluice.Compile("s", l); err == nil {
			t.Errorf("%v: compiled", l)
		}
	}
}

// TestAnyLimitIsSafe: whatever a Limit holds, its methods do not panic, and
// Compile takes it if and only if Validate does.
func TestAnyLimitIsSafe(t *testing.T) {
	small := func(t *rapid.T, label string) uint8 { return rapid.Uint8Range(0, 8).Draw(t, label) }
	number := func(t *rapid.T, label string) int64 { return rapid.Int64().Draw(t, label) }
	length := func(t *rapid.T, label string) time.Duration {
		return rapid.OneOf(rapid.SampledFrom([]time.Duration{0, 0, time.Microsecond, bounds.MaxWarmUp}), rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(number(t, label))
		})).Draw(t, label)
	}
	rapid.Check(t, func(t *rapid.T) {
		algorithms := []sluice.Algorithm{
			nil,
			sluice.TokenBucket{
				Refill: sluice.Refill(small(t, "refill") / 2), InitialDeficit: number(t, "deficit"), NextWaits: rapid.Bool().Draw(t, "next waits"),
				WarmUp: length(t, "warm-up"), Credit: number(t, "credit"), CreditFor: length(t, "credit for"),
			},
			sluice.LeakyBucket{DelayAfter: number(t, "delay after")},
			sluice.FixedWindow{
				OnFirst: small(t, "anchor")/4 == 1, Calendar: sluice.Calendar(small(t, "calendar")),
				Zone: rapid.OneOf(rapid.SampledFrom(zones), rapid.String()).Draw(t, "zone"), WeekStart: time.Weekday(number(t, "week start")),
				From: sluice.Moment{Month: time.Month(small(t, "month")), Day: int(small(t, "day")), Time: length(t, "time of day")}, InitialDeficit: number(t, "first deficit"),
			},
			sluice.SlidingLog{},
			sluice.SlidingCounter{
				SubWindows: int(number(t, "sub-windows")), Conservative: rapid.Bool().Draw(t, "conservative"), Whole: rapid.Bool().Draw(t, "whole"),
				Strict: rapid.Bool().Draw(t, "strict"), PreFilled: rapid.Bool().Draw(t, "pre-filled"),
			},
			sluice.SlidingHistogram{Precision: int(number(t, "precision"))},
			sluice.Block{For: length(t, "block")},
			&sluice.SlidingCounter{}, (*sluice.FixedWindow)(nil),
			embedder{},
		}
		l := sluice.Limit{
			Name:        rapid.OneOf(rapid.Just(""), rapid.String()).Draw(t, "name"),
			Quota:       number(t, "quota"),
			Unit:        sluice.Unit(small(t, "unit") / 4),
			Window:      time.Duration(number(t, "window")),
			Burst:       rapid.OneOf(rapid.Just(int64(0)), rapid.Int64()).Draw(t, "burst"),
			Debt:        number(t, "debt"),
			CountDenied: rapid.Bool().Draw(t, "count denied"),
			Algorithm:   rapid.SampledFrom(algorithms).Draw(t, "algorithm"),
		}
		if text := l.String(); text == "" {
			t.Fatal("no text")
		}
		l.Full()
		l.Share(3)
		l.Filled()
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
		{"token bucket", sluice.PerMinute(9), sluice.Limit{Name: "token-bucket.min", Quota: 9, Window: time.Minute, Burst: 9, Algorithm: sluice.TokenBucket{}}},
		{"token bucket with burst", sluice.PerMinute(9).WithBurst(2), sluice.Limit{Name: "token-bucket.min", Quota: 9, Window: time.Minute, Burst: 2, Algorithm: sluice.TokenBucket{}}},
		{"leaky bucket", sluice.PerMinute(9).WithAlgorithm(sluice.LeakyBucket{}), sluice.Limit{Name: "leaky-bucket.min", Algorithm: sluice.LeakyBucket{DelayAfter: 1}, Quota: 9, Window: time.Minute, Burst: 1}},
		{"fixed window", sluice.PerMinute(9).WithAlgorithm(sluice.FixedWindow{}), sluice.Limit{Name: "fixed-window.min", Algorithm: sluice.FixedWindow{}, Quota: 9, Window: time.Minute}},
		{"calendar", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month}, Quota: 9}, sluice.Limit{Name: "fixed-window.month.utc", Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "UTC"}, Quota: 9, Window: 31 * day}},
		{"calendar of a zone east of GMT", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Etc/GMT+5"}, Quota: 9}, sluice.Limit{Name: "fixed-window.day.etc-gmtp5", Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Etc/GMT+5"}, Quota: 9, Window: day}},
		{"sliding log of bytes", sluice.Limit{Algorithm: sluice.SlidingLog{}, Unit: sluice.Bytes, Quota: 9, Window: 90 * time.Second}, sluice.Limit{Name: "sliding-log.90s.bytes", Algorithm: sluice.SlidingLog{}, Unit: sluice.Bytes, Quota: 9, Window: 90 * time.Second}},
		{"sliding counter", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingCounter{}), sluice.Limit{Name: "sliding-counter.min", Algorithm: sluice.SlidingCounter{SubWindows: 1}, Quota: 9, Window: time.Minute}},
		{"sliding histogram", sluice.PerMinute(9).WithAlgorithm(sluice.SlidingHistogram{}), sluice.Limit{Name: "sliding-histogram.min", Algorithm: sluice.SlidingHistogram{Precision: bounds.DefaultPrecision}, Quota: 9, Window: time.Minute}},
		{"named", sluice.PerMinute(9).WithName("x"), sluice.Limit{Name: "x", Quota: 9, Window: time.Minute, Burst: 9, Algorithm: sluice.TokenBucket{}}},
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
		{sluice.Limit{Quota: 9, Window: time.Minute, Burst: 3, Debt: 5, Algorithm: sluice.TokenBucket{NextWaits: true}}, 8},
		{sluice.PerMinute(9).WithAlgorithm(sluice.LeakyBucket{}), 1},
		{sluice.PerMinute(9).WithAlgorithm(sluice.FixedWindow{}), 9},
		{sluice.PerMinute(9).WithAlgorithm(sluice.SlidingHistogram{}), 9},
		{sluice.MustParseLimit("9/min block 1h"), sluice.MaxQuota},
	} {
		if got := c.limit.Full(); got != c.want {
			t.Errorf("Full of %v = %d, want %d", c.limit, got, c.want)
		}
	}
}
