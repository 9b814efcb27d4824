// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
)

// TestNumber: all spellings of a number have one text, which is exact.
func TestNumber(t *testing.T) {
	for want, written := range map[string][]string{
		"0":                           {"0", "-0", "0.0", "0e5", "-0.00e-7"},
		"1":                           {"1", "1.0", "1e0", "1E+0", "10e-1", "0.1e1", "0.001e3", "1.000"},
		"-1":                          {"-1", "-1.0", "-10e-1"},
		"100":                         {"100", "1e2", "1.00e2", "1000e-1"},
		"1.5":                         {"1.5", "15e-1", "0.15e1", "1.50"},
		"0.001":                       {"0.001", "1e-3", "0.1e-2"},
		"9007199254740993":            {"9007199254740993", "9007199254740993.0", "9.007199254740993e15"},
		"18446744073709551617":        {"18446744073709551617"},
		"1" + strings.Repeat("0", 63): {"1e63"},
	} {
		for _, s := range written {
			if got, err := text(json.RawMessage(s)); err != nil || got != want {
				t.Errorf("%s: got %q, %v, want %q", s, got, err, want)
			}
		}
	}
	for _, s := range []string{"1e64", "1e-65", "1e999999999", "1e-999999999", "1e99999999999999999999", strings.Repeat("1", 65)} {
		if got, err := text(json.RawMessage(s)); err == nil {
			t.Errorf("%s: got %q, want an error", s, got)
		}
	}
}

// FuzzNumber: the text of a number is the same number, and its own text.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"0", "-1.50", "1e0", "10e-1", "1e64", "0.0001e+12"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var n json.Number
		if json.Unmarshal([]byte(s), &n) != nil || n == "" || len(n) > 100 {
			return
		}
		got, err := number(string(n))
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(string(n))
		have, ok2 := new(big.Rat).SetString(got)
		if !ok || !ok2 || want.Cmp(have) != 0 {
			t.Fatalf("%q: got %q", s, got)
		}
		if again, err := number(got); err != nil || again != got {
			t.Errorf("%q: %q is written %q, %v", s, got, again, err)
		}
	})
}
