// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

func TestLimitsThatCross(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		sets [][]string
		want string // in the warning, none if empty
	}{
		{"one contains the other", [][]string{{"10/s burst 20"}, {"100/s burst 200"}}, ""},
		{"buckets that cross", [][]string{{"n: 10/s burst 1"}, {"n: 1/s burst 10"}}, "up to 20 requests within"},
		{"names of their own", [][]string{{"a: 10/s burst 1"}, {"b: 1/s burst 10"}}, ""},
		{"quotas of one window", [][]string{{"5/min sliding-log"}, {"50/min sliding-log"}, {"500/min sliding-log"}}, ""},
		{"windows of one name", [][]string{{"n: 10/min sliding-log"}, {"n: 100/h sliding-log"}}, "up to 700 requests within"},
	} {
		var sets [][]policy.Limit
		for _, texts := range c.sets {
			var set []policy.Limit
			for _, text := range texts {
				set = append(set, policy.Limit{Limit: sluice.MustParseLimit(text)})
			}
			sets = append(sets, set)
		}
		got := strings.Join(crossing(sets), "; ")
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
