// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package scrape reads pages of metrics in tests.
package scrape

import (
	"strconv"
	"strings"
	"testing"
)

// Page returns every series of a page in Prometheus' text format, by its name with
// its labels as written there, with its value.
func Page(t testing.TB, page string) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[line[:max(i, 0)]] = v
	}
	return all
}
