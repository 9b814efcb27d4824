// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"strconv"
	"strings"
	"testing"
)

// Metrics returns the values of a page in Prometheus' text format, by the name and labels of
// the series as written in the page.
func Metrics(t testing.TB, page string) map[string]float64 {
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
