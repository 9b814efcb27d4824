// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/metrics"
)

// TestLimits: each limit in effect is a series, those of tiers and levels, too, and soft and
// grace limits.
func TestLimits(t *testing.T) {
	c, err := config.Parse("a.yaml", []byte(`rules:
  - name: api
    levels:
      - {name: user, by: header.X-User, limits: [100/min, "soft 10/s grace 50/day"], tiers: {by: header.X-Plan, limits: {gold: 7/500ms fixed-window, free: none}}}
      - {name: all, in_flight: 3}
`))
	if err != nil {
		t.Fatal(err)
	}
	m := metrics.New()
	m.WatchLimits(func() *policy.Policy { return c.Policy })
	var got []string
	for series, n := range scraped(t, m) {
		if strings.HasPrefix(series, "sluice_limit_info") && n == 1 {
			got = append(got, series)
		}
	}
	for _, want := range []string{
		`{algorithm="token-bucket",level="user",limit="token-bucket.min",quota="100",rule="api",tier="",window="60"}`,
		`{algorithm="token-bucket",level="user",limit="token-bucket.s",quota="10",rule="api",tier="",window="1"}`,
		`quota="50",rule="api",tier="",window="86400"}`,
		`{algorithm="fixed-window",level="user",limit="fixed-window.500ms",quota="7",rule="api",tier="gold",window="0.5"}`,
	} {
		if all := strings.Join(got, "\n"); !strings.Contains(all, want) || len(got) != 4 {
			t.Errorf("got\n%s\nwant four, one of them %s", all, want)
		}
	}
}
