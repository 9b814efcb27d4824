// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

func TestParseLimitOfAFraction(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, problem string }{
		{"0.5/s", `0.5 is not a whole number; use 1/2s, which is the same rate`},
		{"0.25/min", `0.25 is not a whole number; use 1/4min, which is the same rate`},
		{"2.5/s", `2.5 is not a whole number; use 5/2s, which is the same rate`},
		{"0.1/s burst 3", `0.1 is not a whole number; use 1/10s, which is the same rate`},
		{".5/s", `.5 is not a whole number; use 1/2s, which is the same rate`},
		{"2.0/s", `2.0 is not a whole number; use 2/s, which is the same rate`},
		{"2.50/10min", `2.50 is not a whole number; use 5/20min, which is the same rate`},
		{"1_000.5/h", `1_000.5 is not a whole number; use 2001/2h, which is the same rate`},
		{"1.5MB/min", `1.5MB is not a whole number; use 3MB/2min, which is the same rate`},
		{"0.5KiB/s", `0.5KiB is not a whole number; use 1KiB/2s, which is the same rate`},
		{"0.333333/s", `0.333333 is not a whole number; use 333333/1000000s, which is the same rate`},

		{"0.5/month calendar UTC", `0.5 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.5/day calendar UTC", `0.5 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.001/year", `0.001 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.001/week", `0.001 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.1234567890123456789/s", `0.1234567890123456789 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"9007199254740992.5/s", `9007199254740992.5 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.5/lunch", `0.5 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"0.5furlongs/s", `0.5furlongs is not a whole number, and no whole one is exactly this rate; use a whole number of units`},

		{"0.0/s", `"0.0": ".0" is not a unit; use a plain number of requests, or bytes as B, KB, MB, GB, TB, KiB, MiB, GiB, TiB`},
		{"./s", `"." is not a whole number of units from 0 to 9007199254740991; use such a number`},
		{"5./s", `"5.": "." is not a unit; use a plain number of requests, or bytes as B, KB, MB, GB, TB, KiB, MiB, GiB, TiB`},
		{"1.2.3/s", `1.2.3 is not a whole number, and no whole one is exactly this rate; use a whole number of units`},
		{"-0.5/s", `"-0.5" is not a whole number of units from 0 to 9007199254740991; use such a number`},
	}
	for _, test := range tests {
		_, err := sluice.ParseLimit("a: " + test.text)
		fault, ok := errors.AsType[*sluice.TextError](err)
		if !ok || fault.Offset != 3 || fault.Problem != test.problem {
			t.Errorf("%q: %v\nwant offset 3 and %s", test.text, err, test.problem)
		}
	}
}

var suggested = regexp.MustCompile(`use (\S+/\S+), which`)

// The text that the error for a fraction proposes is valid, and is the same rate.
func TestParseLimitOfAFractionSuggestsTheSameRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		quota := rapid.StringMatching(`[0-9]{0,4}\.[0-9]{1,5}`).Draw(t, "quota")
		n := rapid.Int64Range(1, 100).Draw(t, "n")
		unit := rapid.SampledFrom([]string{"us", "ms", "s", "min", "h", "day", "week"}).Draw(t, "unit")
		want, _ := new(big.Rat).SetString("0" + quota)
		_, err := sluice.ParseLimit(fmt.Sprintf("%s/%d%s", quota, n, unit))
		fault, ok := errors.AsType[*sluice.TextError](err)
		if !ok {
			t.Fatalf("%s: %v", quota, err)
		}
		m := suggested.FindStringSubmatch(fault.Problem)
		if m == nil {
			return
		}
		got, err := sluice.ParseLimit(m[1])
		if err != nil {
			t.Fatalf("%v: %v", fault, err)
		}
		window, err := sluice.ParseLimit(fmt.Sprintf("1/%d%s", n, unit))
		if err != nil {
			t.Fatal(err)
		}
		want.Quo(want, big.NewRat(int64(window.Window), 1))
		if is := big.NewRat(got.Quota, int64(got.Window)); is.Cmp(want) != 0 {
			t.Errorf("%v: that is %v units a ns, want %v", fault, is, want)
		}
	})
}
