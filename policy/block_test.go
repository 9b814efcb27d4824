// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

func TestParseBlock(t *testing.T) {
	for text, want := range map[string]string{
		"10min after 20 denials/min":             "20/min block 10min",
		"  1h  after 1 denial/15min ":            "1/15min block 1hour",
		"long: 1day after 100 denials/h":         "long: 100/hour block 1day",
		"250ms after 1_000 denials/s":            "1000/s block 250ms",
		"366day after 9007199254740991 denial/s": "9007199254740991/s block 366day",
	} {
		if got, err := policy.ParseBlock(text); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
	for _, c := range []struct {
		text   string
		offset int
		says   string
	}{
		{"", 0, "the length of the block is missing; use for example 10min after 20 denials/min"},
		{"long:", 5, "length of the block is missing"},
		{"10min", 5, "number of denials is missing"},
		{"10min for 20 denials/min", 6, "number of denials is missing"},
		{"10min after", 11, "number of denials and their time are missing"},
		{"10min after 20", 14, "number of denials and their time are missing"},
		{"10min after 20 denials", 22, "time of the denials is missing"},
		{"10min after 20 denied/min", 15, "number of denials and their time are not valid"},
		{"10min after 20 denials/min twice", 27, "text after"},
		{"ten after 20 denials/min", 0, `"ten" is not the length of a block; use for example 10min after 20 denials/min`},
		{"10min after 2.5 denials/min", 12, "is not a whole number"},
		{"10min after 20MB denials/min", -1, "not bytes"},
		{"10min after 20 denials/moon", 23, `"moon" is not a window`},
		{"a: 0s after 20 denials/min", 3, "at least 1"},
		{"A: 1s after 20 denials/min", 0, "the name"},
		{"a: 1s after many denials/min", 12, "not a whole number"},
	} {
		l, err := policy.ParseBlock(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: got %v, %v, want an error with %q", c.text, l, err, c.says)
		}
		if fault, ok := errors.AsType[*sluice.TextError](err); ok != (c.offset >= 0) || ok && (fault.Offset != c.offset || fault.Text != c.text) {
			t.Errorf("%q: got %+v, want it at %d", c.text, fault, c.offset)
		}
	}
}

// FuzzParseBlock: no text crashes, a fault lies within it, and the result is a block.
func FuzzParseBlock(f *testing.F) {
	for _, text := range []string{"10min after 20 denials/min", "a: 1h after 1 denial/s", "x after y z/", "a: b: after 1 denials/min", "µs after 1 denials/µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l, err := policy.ParseBlock(text)
		if fault, ok := errors.AsType[*sluice.TextError](err); ok && (fault.Offset < 0 || fault.Offset > len(text)) {
			t.Errorf("%q: a fault at %d", text, fault.Offset)
		}
		if err == nil && (!testkit.Is[sluice.Block](l) || l.Validate() != nil) {
			t.Errorf("%q: read as %v", text, l)
		}
	})
}
