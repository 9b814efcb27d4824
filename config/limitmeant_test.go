// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
)

// TestLimitOfKeys: a limit in another limiter's form is refused with an error that shows
// sluice's form, which is accepted.
func TestLimitOfKeys(t *testing.T) {
	for limit, want := range map[string]string{
		"{rate: 60, per: min, burst: 10}":                "60/min burst 10",
		"{rate: 60, per: 1m, burst: 10}":                 "60/min burst 10",
		"{rate: 60, period: 60}":                         "60/min",
		"{limit: 5, window: 1h}":                         "5/h",
		"{unit: minute, requests_per_unit: 100}":         "100/min",
		"{average: 100, period: 1s, burst: 50}":          "100/s burst 50",
		"{rate: 10/s, burst: 20}":                        "10/s burst 20",
		"{Requests: 7, Per: 90s}":                        "7/90s",
		"{rate: many, per: fortnight}":                   "60/min burst 10",
		"{burst: 5}":                                     "60/min burst 10",
		"[{rate: 60, per: min}, {rate: 1000, per: day}]": "60/min",
	} {
		_, err := config.Parse("f", []byte("rules: [{name: a, by: ip, limits: "+limit+"}]"))
		if err == nil || !strings.Contains(err.Error(), "a limit is a text; use "+want) {
			t.Errorf("%s: got %v, want %q", limit, err, want)
		}
		if _, err := config.Parse("f", []byte("rules: [{name: a, by: ip, limits: "+want+"}]")); err != nil {
			t.Error(err)
		}
	}
}
