// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

const day = 24 * time.Hour

// texts are limit texts, their limits, and the text of String if it differs.
var texts = []struct {
	text   string
	want   sluice.Limit
	prints string
}{
	{text: "100/min", want: sluice.PerMinute(100)},
	{text: "10/s burst 20 token-bucket", want: sluice.PerSecond(10).WithBurst(20), prints: "10/s burst 20"},
	{text: "10/s burst 20", want: sluice.PerSecond(10).WithBurst(20)},
	{text: "10/s gcra", want: sluice.PerSecond(10), prints: "10/s"},
	{text: "100MB/min sliding-histogram", want: sluice.Limit{Algorithm: sluice.SlidingHistogram{}, Quota: 100e6, Unit: sluice.Bytes, Window: time.Minute}},
	{text: "100MB/min", want: sluice.Limit{Quota: 100e6, Unit: sluice.Bytes, Window: time.Minute}},
	{text: "per-user: 100MB/min sliding-histogram", want: sluice.Limit{Name: "per-user", Algorithm: sluice.SlidingHistogram{}, Quota: 100e6, Unit: sluice.Bytes, Window: time.Minute}},
	{text: "per-user: 100/min burst 20 token-bucket", want: sluice.PerMinute(100).WithBurst(20).WithName("per-user"), prints: "per-user: 100/min burst 20"},
	{text: "1/3s leaky-bucket", want: sluice.Per(1, 3*time.Second).WithAlgorithm(sluice.LeakyBucket{})},
	{text: "5/min fixed-window", want: sluice.PerMinute(5).WithAlgorithm(sluice.FixedWindow{})},
	{text: "1000/day fixed-window calendar Asia/Seoul", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Asia/Seoul"}, Quota: 1000}},
	{text: "1000/day calendar Asia/Seoul", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, Zone: "Asia/Seoul"}, Quota: 1000}, prints: "1000/day fixed-window calendar Asia/Seoul"},
	{text: "10/min sliding-log", want: sluice.PerMinute(10).WithAlgorithm(sluice.SlidingLog{})},
	{text: "1000/h", want: sluice.PerHour(1000), prints: "1000/hour"},
	{text: "2/10min sliding-log count-denied", want: sluice.Limit{Algorithm: sluice.SlidingLog{}, Quota: 2, Window: 10 * time.Minute, CountDenied: true}},

	{text: "20/min block 10min", want: sluice.Limit{Algorithm: sluice.Block{For: 10 * time.Minute}, Quota: 20, Window: time.Minute}},
	{text: "bad: 100/h block day", want: sluice.Limit{Name: "bad", Algorithm: sluice.Block{For: day}, Quota: 100, Window: time.Hour}, prints: "bad: 100/hour block 1day"},
	{text: "1/s block 90s", want: sluice.Limit{Algorithm: sluice.Block{For: 90 * time.Second}, Quota: 1, Window: time.Second}},
	{text: "3/min block 366day", want: sluice.Limit{Algorithm: sluice.Block{For: sluice.MaxWindow}, Quota: 3, Window: time.Minute}},

	{text: "  100/min\t burst\n 5 ", want: sluice.PerMinute(100).WithBurst(5), prints: "100/min burst 5"},
	{text: "1_000_000/min", want: sluice.PerMinute(1e6), prints: "1000000/min"},
	{text: "9007199254740991/us", want: sluice.Per(sluice.MaxQuota, time.Microsecond)},
	{text: "1/366day", want: sluice.Per(1, sluice.MaxWindow)},
	{text: "1/1µs", want: sluice.Per(1, time.Microsecond), prints: "1/us"},
	{text: "1/250ms", want: sluice.Per(1, 250*time.Millisecond)},
	{text: "1/60s", want: sluice.PerMinute(1), prints: "1/min"},
	{text: "1/90sec", want: sluice.Per(1, 90*time.Second), prints: "1/90s"},
	{text: "1/24h", want: sluice.PerDay(1), prints: "1/day"},
	{text: "1/2weeks", want: sluice.Per(1, 14*day), prints: "1/2week"},
	{text: "1/w fixed-window", want: sluice.Per(1, 7*day).WithAlgorithm(sluice.FixedWindow{}), prints: "1/week fixed-window"},
	{text: "64KiB/s burst 1MiB", want: sluice.Limit{Quota: 64 << 10, Unit: sluice.Bytes, Window: time.Second, Burst: 1 << 20}},
	{text: "64KiB/s burst 100", want: sluice.Limit{Quota: 64 << 10, Unit: sluice.Bytes, Window: time.Second, Burst: 100}, prints: "64KiB/s burst 100B"},
	{text: "64KiB/s initial 0B", want: sluice.Limit{Quota: 64 << 10, Unit: sluice.Bytes, Window: time.Second, Algorithm: sluice.TokenBucket{InitialDeficit: 64 << 10}}},
	{text: "1kB/s", want: sluice.Limit{Quota: 1000, Unit: sluice.Bytes, Window: time.Second}, prints: "1KB/s"},
	{text: "1500B/s", want: sluice.Limit{Quota: 1500, Unit: sluice.Bytes, Window: time.Second}},
	{text: "2TB/week sliding-counter debt 1GB", want: sluice.Limit{Algorithm: sluice.SlidingCounter{}, Quota: 2e12, Unit: sluice.Bytes, Window: 7 * day, Debt: 1e9}},

	{text: "100/min interval-refill", want: sluice.Limit{Quota: 100, Window: time.Minute, Algorithm: sluice.TokenBucket{Refill: sluice.Interval}}},
	{text: "100/min credit 50 credit-for 24h", want: sluice.Limit{Quota: 100, Window: time.Minute, Algorithm: sluice.TokenBucket{Credit: 50, CreditFor: 24 * time.Hour}}, prints: "100/min credit 50 credit-for 1day"},
	{text: "1MB/s credit-for min debt 2MB credit 1GB", want: sluice.Limit{Quota: 1e6, Unit: sluice.Bytes, Window: time.Second, Debt: 2e6, Algorithm: sluice.TokenBucket{Credit: 1e9, CreditFor: time.Minute}}, prints: "1MB/s debt 2MB credit 1GB credit-for 1min"},
	{text: "5/s next-waits debt 100", want: sluice.Limit{Quota: 5, Window: time.Second, Algorithm: sluice.TokenBucket{NextWaits: true}, Debt: 100}},
	{text: "1MB/s interval-refill initial 0 debt 5MB next-waits", want: sluice.Limit{Quota: 1e6, Unit: sluice.Bytes, Window: time.Second, Algorithm: sluice.TokenBucket{Refill: sluice.Interval, InitialDeficit: 1e6, NextWaits: true}, Debt: 5e6}, prints: "1MB/s interval-refill initial 0B next-waits debt 5MB"},
	{text: "2/s warm-up 4s", want: sluice.Limit{Quota: 2, Window: time.Second, Algorithm: sluice.TokenBucket{WarmUp: 4 * time.Second}}},
	{text: "2/s warm-up min debt 9 next-waits burst 3", want: sluice.Limit{Quota: 2, Window: time.Second, Burst: 3, Debt: 9, Algorithm: sluice.TokenBucket{NextWaits: true, WarmUp: time.Minute}}, prints: "2/s burst 3 next-waits warm-up 1min debt 9"},
	{text: "10/min burst 20 aligned-refill", want: sluice.Limit{Quota: 10, Window: time.Minute, Burst: 20, Algorithm: sluice.TokenBucket{Refill: sluice.Aligned}}},
	{text: "400/h aligned-refill initial 266", want: sluice.Limit{Quota: 400, Window: time.Hour, Algorithm: sluice.TokenBucket{Refill: sluice.Aligned, InitialDeficit: 134}}, prints: "400/hour aligned-refill initial 266"},
	{text: "100/min initial 0", want: sluice.Limit{Quota: 100, Window: time.Minute, Algorithm: sluice.TokenBucket{InitialDeficit: 100}}},
	{text: "100/min burst 20 initial 5", want: sluice.Limit{Quota: 100, Window: time.Minute, Burst: 20, Algorithm: sluice.TokenBucket{InitialDeficit: 15}}},
	{text: "100/min initial 5 burst 20", want: sluice.Limit{Quota: 100, Window: time.Minute, Burst: 20, Algorithm: sluice.TokenBucket{InitialDeficit: 15}}, prints: "100/min burst 20 initial 5"},
	{text: "100/min initial 100", want: sluice.PerMinute(100), prints: "100/min"},
	{text: "10/s burst 5 leaky-bucket", want: sluice.Limit{Algorithm: sluice.LeakyBucket{}, Quota: 10, Window: time.Second, Burst: 5}},
	{text: "10/s burst 5 leaky-bucket nodelay", want: sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 5}, Quota: 10, Window: time.Second, Burst: 5}},
	{text: "10/s nodelay burst 5 leaky-bucket", want: sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 5}, Quota: 10, Window: time.Second, Burst: 5}, prints: "10/s burst 5 leaky-bucket nodelay"},
	{text: "10/s burst 5 leaky-bucket delay-after 3", want: sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 3}, Quota: 10, Window: time.Second, Burst: 5}},
	{text: "10/s burst 5 leaky-bucket delay-after 5", want: sluice.Limit{Algorithm: sluice.LeakyBucket{DelayAfter: 5}, Quota: 10, Window: time.Second, Burst: 5}, prints: "10/s burst 5 leaky-bucket nodelay"},
	{text: "5/min fixed-window anchor first", want: sluice.Limit{Algorithm: sluice.FixedWindow{OnFirst: true}, Quota: 5, Window: time.Minute}},
	{text: "5/min fixed-window anchor clock", want: sluice.PerMinute(5).WithAlgorithm(sluice.FixedWindow{}), prints: "5/min fixed-window"},
	{text: "5/1day calendar UTC", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day}, Quota: 5}, prints: "5/day fixed-window calendar UTC"},
	{text: "5/week calendar Europe/London week-starts Monday", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, Zone: "Europe/London", WeekStart: time.Monday}, Quota: 5}, prints: "5/week fixed-window calendar Europe/London week-starts monday"},
	{text: "5/week calendar UTC week-starts sunday", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week}, Quota: 5}, prints: "5/week fixed-window calendar UTC"},
	{text: "5/month calendar America/New_York", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "America/New_York"}, Quota: 5}, prints: "5/month fixed-window calendar America/New_York"},
	{text: "1000/month calendar Europe/Berlin from 17T09:00", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "Europe/Berlin", From: sluice.Moment{Day: 17, Time: 9 * time.Hour}}, Quota: 1000}, prints: "1000/month fixed-window calendar Europe/Berlin from 17T09:00"},
	{text: "1000/month fixed-window calendar UTC from 31", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, From: sluice.Moment{Day: 31}}, Quota: 1000}},
	{text: "9/day fixed-window calendar UTC from 00:30", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day, From: sluice.Moment{Time: 30 * time.Minute}}, Quota: 9}},
	{text: "9/day fixed-window calendar UTC from 00:00", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Day}, Quota: 9}, prints: "9/day fixed-window calendar UTC"},
	{text: "9/week from 08:00 week-starts monday calendar UTC", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, WeekStart: time.Monday, From: sluice.Moment{Time: 8 * time.Hour}}, Quota: 9}, prints: "9/week fixed-window calendar UTC week-starts monday from 08:00"},
	{text: "9/year fixed-window calendar Europe/London from 04-06T09:00", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Year, Zone: "Europe/London", From: sluice.Moment{Month: 4, Day: 6, Time: 9 * time.Hour}}, Quota: 9}},
	{text: "1000/month fixed-window calendar UTC initial 400", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, InitialDeficit: 600}, Quota: 1000}},
	{text: "10KB/min fixed-window initial 0B", want: sluice.Limit{Algorithm: sluice.FixedWindow{InitialDeficit: 10_000}, Quota: 10_000, Unit: sluice.Bytes, Window: time.Minute}},
	{text: "5GB/year calendar UTC debt 1MB", want: sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Year}, Quota: 5e9, Unit: sluice.Bytes, Debt: 1e6}, prints: "5GB/year fixed-window calendar UTC debt 1MB"},
	{text: "100/min sliding-counter sub-windows 6 conservative pre-filled", want: sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 6, Conservative: true, PreFilled: true}, Quota: 100, Window: time.Minute}},
	{text: "100/min sliding-counter strict", want: sluice.Limit{Algorithm: sluice.SlidingCounter{Strict: true}, Quota: 100, Window: time.Minute}},
	{text: "100/min sliding-counter sub-windows 6 whole", want: sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 6, Whole: true}, Quota: 100, Window: time.Minute}},
	{text: "100/min whole pre-filled sub-windows 2 sliding-counter", want: sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 2, Whole: true, PreFilled: true}, Quota: 100, Window: time.Minute}, prints: "100/min sliding-counter sub-windows 2 whole pre-filled"},
	{text: "100/min strict pre-filled sub-windows 6 sliding-counter debt 2", want: sluice.Limit{Algorithm: sluice.SlidingCounter{SubWindows: 6, Strict: true, PreFilled: true}, Quota: 100, Window: time.Minute, Debt: 2}, prints: "100/min sliding-counter sub-windows 6 strict pre-filled debt 2"},
	{text: "5/min count-denied", want: sluice.Limit{Quota: 5, Window: time.Minute, CountDenied: true}},
	{text: "5/15min count-denied anchor first fixed-window", want: sluice.Limit{Algorithm: sluice.FixedWindow{OnFirst: true}, Quota: 5, Window: 15 * time.Minute, CountDenied: true}, prints: "5/15min fixed-window anchor first count-denied"},
	{text: "100/min sliding-histogram precision 3 debt 7", want: sluice.Limit{Algorithm: sluice.SlidingHistogram{Precision: 3}, Quota: 100, Window: time.Minute, Debt: 7}},
}

func TestParseLimit(t *testing.T) {
	for _, c := range texts {
		t.Run(c.text, func(t *testing.T) {
			got, err := sluice.ParseLimit(c.text)
			if err != nil {
				t.Fatal(err)
			}
			if got != c.want {
				t.Errorf("ParseLimit = %+v, want %+v", got, c.want)
			}
			want := c.prints
			if want == "" {
				want = c.text
			}
			if got := got.String(); got != want {
				t.Errorf("String = %q, want %q", got, want)
			}
			if again, err := sluice.ParseLimit(want); err != nil || again != c.want {
				t.Errorf("ParseLimit(%q) = %+v, %v, want %+v", want, again, err, c.want)
			}
		})
	}
}

func TestParseLimitSaysWhereAndWhat(t *testing.T) {
	for _, c := range []struct {
		text   string
		offset int
		says   string
	}{
		{"", 0, "use a quota and a window, such as 100/min"},
		{"   ", 3, "use a quota and a window"},
		{"user:", 5, "use a quota and a window"},
		{"100", 0, `"100" is not a quota and a window`},
		{"/min", 0, `"" is not a whole number of units`},
		{"-5/min", 0, "not a whole number of units from 0 to 9007199254740991"},
		{"+5/min", 0, "not a whole number"},
		{"_5/min", 0, "not a whole number"},
		{"5_/min", 0, "not a whole number"},
		{"5__0/min", 0, "not a whole number"},
		{"1.5/min", 0, `use 3/2min, which is the same rate`},
		{"1e3/min", 0, `"e3" is not a unit`},
		{"9007199254740992/min", 0, "9007199254740991"},
		{"9223372036854775808/min", 0, "9007199254740991"},
		{"99999999999999999999999/min", 0, "9007199254740991"},
		{"9008TB/min", 0, `"9008TB" is more than 9007199254740991 bytes`},
		{"9007199254740991TiB/min", 0, "is more than 9007199254740991 bytes"},
		{"16777216TiB/min", 0, "is more than 9007199254740991 bytes"}, // 2^64
		{"10XB/min", 0, `"XB" is not a unit`},
		{"100/", 4, "is not a window"},
		{"100/fortnight", 4, `"fortnight" is not a window`},
		{"100/0s", 4, "at least 1"},
		{"100/-1s", 4, `"-1s" is not a window`},
		{"100/1.5s", 4, "is not a window"},
		{"100/10ns", 4, "is not a window"},
		{"100/367day", 4, `the window "367day" is longer than 8784h0m0s`},
		{"100/9223372036854775807week", 4, "is longer than"},
		{"100/92233720368547758080s", 4, "at least 1"},
		{"100/2month calendar UTC", 4, "is not a window"},
		{"100/month", 4, "a month has no fixed length"},
		{"100/year fixed-window", 4, "a year has no fixed length"},
		{"100/min/s", 4, `"min/s" is not a window`},
		{"20/min block", 12, "is not the length of a block; use for example 20/min block 10min"},
		{"20/min block ten", 13, `"ten" is not the length of a block`},
		{"20/min block 0s", 13, "at least 1"},
		{"20/min block 367day", 13, `the length of a block "367day" is longer than`},
		{"20/min block 10min block 5min", 19, "a second algorithm"},
		{"20/min sliding-log block 5min", 19, "a second algorithm"},
		{"20/min block 10min burst 3", 19, "burst belongs to token-bucket and leaky-bucket, not to block"},
		{"20/min block month", 13, `"month" is not the length of a block`},
		{"Per User: 1/min", 0, "is not a quota and a window"},
		{"User: 1/min", 0, `the name "User" must be`},
		{": 1/min", 0, `the name "" must be`},
		{strings.Repeat("a", 65) + ": 1/min", 0, "must be 1 to 64"},
		{"1/min 2/min", 6, `unknown word "2/min"`},
		{"1/min burst=5", 6, "unknown word"},
		{"1/min tumbling", 6, "use an algorithm (token-bucket, leaky-bucket, fixed-window, sliding-log, sliding-counter, sliding-histogram)"},
		{"1/min Sliding-Log", 6, "unknown word"},
		{"1/min burst", 11, "burst needs a number of units"},
		{"1/min burst x", 12, `"x" is not a whole number`},
		{"1/min burst 0", 12, "burst must be at least 1"},
		{"1/min burst 5KB", 12, `"5KB" is in bytes but the quota is not`},
		{"1/min burst 5 burst 6", 14, "a second burst; a limit has one"},
		{"1/min gcra token-bucket", 11, "a second algorithm"},
		{"1/s aligned-refill interval-refill", 19, "a second refill; a limit has one"},
		{"1/s sliding-log aligned-refill", 16, "aligned-refill belongs to token-bucket"},
		{"1/s leaky-bucket credit 1 credit-for 1s", 17, "credit belongs to token-bucket"},
		{"1/s credit 1 credit-for soon", 24, `"soon" is not how long credit lasts; use for example 100/min credit 50 credit-for 24h`},
		{"1/s credit 0 credit-for 1s", 11, "credit must be at least 1"},
		{"1/s credit 1 credit-for 367day", 24, "longer than"},
		{"1/s leaky-bucket debt 1 next-waits", 24, "next-waits belongs to token-bucket"},
		{"1/s leaky-bucket warm-up 4s", 17, "warm-up belongs to token-bucket"},
		{"1/s warm-up", 11, `"" is not how long to warm up; use for example 2/s warm-up 4s`},
		{"1/s warm-up 4", 12, `"4" is not how long to warm up`},
		{"1/s warm-up 0s", 12, `the length of a warm-up "0s" must be a whole number of at least 1`},
		{"1/s warm-up 4s warm-up 5s", 15, "a second warm-up"},
		{"1/s leaky-bucket nodelay delay-after 1", 25, "a second delay"},
		{"1/s leaky-bucket delay-after 0", 29, "delay-after must be at least 1"},
		{"1/min initial 2", 14, "initial 2 is above the burst of 1"},
		{"1/min debt -1", 11, "not a whole number"},
		{"1/min anchor", 12, `anchor "" is neither clock nor first`},
		{"1/min sliding-counter sub-windows 0", 34, `sub-windows "0" is not a number from 1 to 1024`},
		{"1/min sliding-counter sub-windows +5", 34, `"+5" is not a number`},
		{"1/min sliding-counter sub-windows", 33, `"" is not a number`},
		{"1/min sliding-histogram precision 2", 34, "from 3 to 1024"},
		{"1/min sliding-histogram precision 1025", 34, "from 3 to 1024"},
		{"1/day calendar", 14, "calendar needs a time zone"},
		{"1/day calendar Local", 15, "calendar needs a time zone"},
		{"1/min calendar UTC", 2, "calendar needs a window of one day, week, month or year, not min"},
		{"1/24h calendar UTC", 2, "calendar needs a window of one day"},
		{"1/31day calendar UTC", 2, "calendar needs a window of one day"},
		{"1/366day calendar UTC", 2, "calendar needs a window of one day"},
		{"1/week calendar UTC week-starts someday", 32, `"someday" is not a day of the week`},
		{"1/week calendar UTC week-starts", 31, "is not a day of the week"},
		{"1/day calendar UTC week-starts monday", 19, "only a calendar week has a first day"},

		// An option of another algorithm is a fault even where its value is the default.
		{"5/min fixed-window burst 5", 19, "burst belongs to token-bucket and leaky-bucket, not to fixed-window"},
		{"5/min sliding-log initial 0", 18, "initial belongs to token-bucket and fixed-window, not to sliding-log"},
		{"5/min fixed-window initial 6", 27, "initial 6 is above the quota of 5"},
		{"5/min fixed-window from 09:00", 19, "from 09:00: needs a Calendar"},
		{"5/day calendar UTC from 17", 19, "from 17: a calendar day begins at a time alone"},
		{"5/month calendar UTC from 32", 21, "from 32: day 32 must be 1 to 31"},
		{"5/month calendar UTC from 04-06", 21, "without a month"},
		{"5/year calendar UTC from 02-30", 20, "February has no day 30"},
		{"5/year calendar UTC from 17", 20, "such as 04-06"},
		{"5/month calendar UTC from 9:00", 26, "is not when a calendar window begins"},
		{"5/month calendar UTC from 17T", 26, "is not when a calendar window begins"},
		{"5/month calendar UTC from 0", 26, "is not when a calendar window begins"},
		{"5/month calendar UTC from T09:00", 26, "is not when a calendar window begins"},
		{"5/day calendar UTC from 24:00", 24, "is not when a calendar window begins"},
		{"5/month calendar UTC from", 25, "is not when a calendar window begins"},
		{"5/min fixed-window nodelay", 19, "nodelay belongs to leaky-bucket"},
		{"5/min nodelay", 6, "nodelay belongs to leaky-bucket, not to token-bucket"},
		{"5/min interval-refill leaky-bucket", 6, "interval-refill belongs to token-bucket"},
		{"5/min anchor clock", 6, "anchor belongs to fixed-window"},
		{"5/min count-denied count-denied", 19, "a second count-denied"},
		{"5/min sub-windows 1", 6, "sub-windows belongs to sliding-counter"},
		{"5/min conservative sliding-histogram", 6, "conservative belongs to sliding-counter"},
		{"5/min strict sliding-log", 6, "strict belongs to sliding-counter, not to sliding-log"},
		{"5/min strict conservative", 6, "strict belongs to sliding-counter, not to token-bucket"},
		{"5/min sliding-counter strict strict", 29, "a second strict; a limit has one"},
		{"5/min whole", 6, "whole belongs to sliding-counter, not to token-bucket"},
		{"5/min sliding-counter whole conservative", 28, "conservative excludes whole; use one of them"},
		{"5/min sliding-counter strict sub-windows 2 whole", 43, "whole excludes strict; use one of them"},
		{"5/min sliding-counter strict conservative", 29, "conservative excludes strict; use one of them"},
		{"5/min conservative sliding-counter pre-filled strict", 46, "strict excludes conservative; use one of them"},
		{"5/min pre-filled", 6, "pre-filled belongs to sliding-counter"},
		{"5/min sliding-log precision 32", 18, "precision belongs to sliding-histogram"},
		{"5/day sliding-log calendar UTC", 18, "calendar belongs to fixed-window, not to sliding-log"},
		{"5/day week-starts sunday", 6, "week-starts belongs to fixed-window"},
	} {
		t.Run(c.text, func(t *testing.T) {
			l, err := sluice.ParseLimit(c.text)
			var fault *sluice.TextError
			if !errors.As(err, &fault) {
				t.Fatalf("ParseLimit = %+v, %v, want a *TextError", l, err)
			}
			if l != (sluice.Limit{}) {
				t.Errorf("limit = %+v, want zero beside an error", l)
			}
			if fault.Offset != c.offset || !strings.Contains(fault.Problem, c.says) || fault.Text != c.text {
				t.Errorf("got offset %d, text %q, problem %q\nwant offset %d, problem with %q", fault.Offset, fault.Text, fault.Problem, c.offset, c.says)
			}
		})
	}
}

func TestParseLimitReportsTheFaultsOfTheLimit(t *testing.T) {
	for _, c := range []struct{ text, field string }{
		{"0/min", "Quota"},
		{"65537/min sliding-log", "Quota"},
		{"5/day calendar Atlantis/Capital", "Zone"},
		{"5/day calendar ../../etc/passwd", "Zone"},
		{"5/min sliding-counter sub-windows 7", "SubWindows"},
		{"5/day calendar UTC anchor first", "OnFirst"},
		{"1/day burst 1000", "Burst"},
		{"10/s burst 5 leaky-bucket delay-after 6", "DelayAfter"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := sluice.ParseLimit(c.text)
			var fault *sluice.LimitError
			if !errors.As(err, &fault) {
				t.Fatalf("got %v, want a *LimitError", err)
			}
			if fault.Field != c.field || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got field %q of %v, want %q and the text", fault.Field, err, c.field)
			}
		})
	}
}

func TestParseLimitRefusesLongText(t *testing.T) {
	longest := "1/min" + strings.Repeat(" ", bounds.MaxTextBytes-len("1/min"))
	if _, err := sluice.ParseLimit(longest); err != nil {
		t.Errorf("%d bytes: %v", len(longest), err)
	}
	_, err := sluice.ParseLimit(strings.Repeat("é", 1<<20))
	var fault *sluice.TextError
	if !errors.As(err, &fault) || !strings.Contains(fault.Problem, "longer than 1024 bytes") {
		t.Fatalf("got %v, want a *TextError on the length", err)
	}
	if got := len(err.Error()); got > 256 {
		t.Errorf("the error has %d bytes, want it short", got)
	}
}

// TestLimitTextRoundTrip: ParseLimit(l.String()) is l, for any valid l.
func TestLimitTextRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := limits().Draw(t, "limit")
		if err := l.Validate(); err != nil {
			t.Fatalf("the drawn limit is not valid: %v", err)
		}
		want := l
		if testkit.Fixed(l).Calendar != sluice.NoCalendar {
			want.Window = 0
		}
		if testkit.Fixed(l).Zone == "UTC" {
			testkit.Set(&want, func(w *sluice.FixedWindow) { w.Zone = "" })
		}
		if l.Algorithm == (sluice.TokenBucket{}) {
			want.Algorithm = nil
		}
		got, err := sluice.ParseLimit(l.String())
		if err != nil {
			t.Fatalf("%q: %v", l, err)
		}
		if got != want {
			t.Fatalf("%q = %+v, want %+v", l, got, want)
		}
		full, err := sluice.ParseLimit(l.Filled().String())
		if err != nil {
			t.Fatalf("%q with defaults filled in: %v", l.Filled(), err)
		}
		if full.Filled() != l.Filled() {
			t.Fatalf("%q with defaults filled in = %+v, want %+v", l, full.Filled(), l.Filled())
		}
	})
}

func TestLimitInJSON(t *testing.T) {
	type file struct{ Limits map[string]sluice.Limit }
	in := file{map[string]sluice.Limit{"a": sluice.PerMinute(5).WithAlgorithm(sluice.SlidingLog{})}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(text), `{"Limits":{"a":"5/min sliding-log"}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	var out file
	if err := json.Unmarshal(text, &out); err != nil || out.Limits["a"] != in.Limits["a"] {
		t.Errorf("got %+v, %v, want %+v", out, err, in)
	}
	kept := sluice.PerSecond(1)
	if err := kept.UnmarshalText([]byte("5/minute burst")); err == nil || kept != sluice.PerSecond(1) {
		t.Errorf("a bad text left %v, %v, want an error and the limit as it was", kept, err)
	}
}

func TestMustParseLimitPanics(t *testing.T) {
	if got, want := sluice.MustParseLimit("5/min"), sluice.PerMinute(5); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	defer func() {
		err, ok := recover().(error)
		var fault *sluice.TextError
		if !ok || !errors.As(err, &fault) {
			t.Errorf("recovered %v, want a *TextError", err)
		}
	}()
	sluice.MustParseLimit("five/min")
}

// FuzzParseLimit: no text crashes. A text that can be read makes a valid limit that
// round-trips; the error for any other text has the place of the fault.
func FuzzParseLimit(f *testing.F) {
	for _, c := range texts {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := sluice.ParseLimit(text)
		if err != nil {
			checkParseError(t, text, l, err)
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("%q was read as %+v: %v", text, l, err)
		}
		again, err := sluice.ParseLimit(l.String())
		if err != nil {
			t.Fatalf("%q is written %q: %v", text, l, err)
		}
		if again != l {
			t.Fatalf("%q is written %q, read as %+v, want %+v", text, l, again, l)
		}
		if _, err := sluice.CompileLimit("fuzz", l); err != nil {
			t.Fatalf("%q was read but not compiled: %v", text, err)
		}
	})
}

func checkParseError(t *testing.T, text string, l sluice.Limit, err error) {
	t.Helper()
	if l != (sluice.Limit{}) {
		t.Errorf("%q: %+v beside %v, want zero", text, l, err)
	}
	var inText *sluice.TextError
	var inLimit *sluice.LimitError
	switch {
	case errors.As(err, &inText):
		if inText.Offset < 0 || inText.Offset > len(text) || inText.Problem == "" {
			t.Errorf("%q: offset %d, problem %q", text, inText.Offset, inText.Problem)
		}
	case errors.As(err, &inLimit):
	default:
		t.Errorf("%q: %T %v, want a *TextError or *LimitError", text, err, err)
	}
}
