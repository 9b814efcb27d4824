// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
)

func TestShare(t *testing.T) {
	for _, c := range []struct {
		limit string
		nodes int
		want  string
	}{
		{"100/min", 1, "token-bucket.min: 100/min burst 100"},
		{"100/min", -3, "token-bucket.min: 100/min burst 100"},
		{"100/min", 8, "token-bucket.min: 100/8min burst 12"},
		{"100/min burst 3 debt 20", 8, "token-bucket.min: 100/8min burst 1 debt 2"},
		{"60/min credit 50 credit-for 24h", 3, "token-bucket.min: 60/3min burst 20"},
		{"60/min burst 1 warm-up 10s", 3, "token-bucket.min: 60/3min burst 1 warm-up 10s"},
		{"60/min interval-refill", 3, "token-bucket.min: 20/min burst 20 interval-refill"},
		{"5/min aligned-refill burst 60", 8, "token-bucket.min: 5/8min burst 7"},
		{"60/min interval-refill burst 2", 3, "token-bucket.min: 2/3min burst 1"},
		{"10/s leaky-bucket burst 9 delay-after 4", 3, "leaky-bucket.s: 10/3s burst 3 leaky-bucket delay-after 1"},
		{"10/s leaky-bucket burst 9 nodelay", 3, "leaky-bucket.s: 10/3s burst 3 leaky-bucket nodelay"},
		{"60/min sliding-log", 3, "sliding-log.min: 20/min sliding-log"},
		{"5/s sliding-log debt 2 count-denied", 3, "sliding-log.s: 1/s sliding-log count-denied"},
		{"5/15min fixed-window anchor first", 8, "fixed-window.15min: 1/24min sliding-log"},
		{"10/s sliding-counter sub-windows 5 strict", 3, "sliding-counter.s: 3/s sliding-counter sub-windows 5 strict"},
		{"5/s sliding-counter sub-windows 5 conservative debt 20", 8, "sliding-counter.s: 1/1600ms sliding-log debt 2"},
		{"2/s sliding-histogram precision 4", 3, "sliding-histogram.s: 1/1500ms sliding-log"},
		{"7/s sliding-histogram precision 4", 3, "sliding-histogram.s: 2/s sliding-histogram precision 4"},
		{"100/day calendar Asia/Seoul", 8, "fixed-window.day.asia-seoul: 12/day fixed-window calendar Asia/Seoul"},
		{"5/day calendar Asia/Seoul", 8, "fixed-window.day.asia-seoul: 1/day fixed-window calendar Asia/Seoul"},
		{"100/day calendar UTC initial 50", 8, "fixed-window.day.utc: 12/day fixed-window calendar UTC initial 6"},
		{"10/366day debt 9 next-waits", 3, "token-bucket.366day: 3/474336min burst 3 next-waits debt 3"},
		{"10/366day debt 2 next-waits", 3, "token-bucket.366day: 3/474336min burst 3"},
		{"1/366day", 4, "token-bucket.366day: 1/366day burst 1"},
		{"20/min block 10min", 8, "block.min: 20/min block 10min"},
	} {
		if got := sluice.MustParseLimit(c.limit).Share(c.nodes); got.String() != c.want {
			t.Errorf("the share of %v among %d: %v, want %s", c.limit, c.nodes, got, c.want)
		}
	}
}

// TestSharesAreValid: for any limit and number of nodes, the share is a limit of the same
// name that grants at least one unit, and no more than the limit.
func TestSharesAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, n := limits().Draw(t, "limit").Filled(), rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(-1, 1<<17)).Draw(t, "nodes")
		s := l.Share(n)
		if err := s.Validate(); err != nil {
			t.Fatalf("%v among %d: %v: %v", l, n, s, err)
		}
		if s.Name != l.Name || s.Unit != l.Unit || s.CountDenied != l.CountDenied || s.Full() < 1 || s.Full() > l.Full() || s.Debt > l.Debt {
			t.Fatalf("%v among %d: %v", l, n, s)
		}
	})
}
