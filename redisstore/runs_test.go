// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"bytes"
	"testing"

	"github.com/sluicegate/sluice"
)

// TestRuns: takes of one cost are one run, as long as a double holds their sum exactly.
func TestRuns(t *testing.T) {
	const most = sluice.MaxQuota
	for _, c := range []struct{ costs, want []int64 }{
		{[]int64{1}, []int64{1, 1}},
		{[]int64{2, 2, 2, 1, 2}, []int64{3, 2, 1, 1, 1, 2}},
		{[]int64{0, 0}, []int64{2, 0}},
		{[]int64{most, most}, []int64{1, most, 1, most}},
		{[]int64{most / 3, most / 3, most / 3, most / 3}, []int64{3, most / 3, 1, most / 3}},
	} {
		var jobs []*job
		for _, cost := range c.costs {
			jobs = append(jobs, &job{req: &sluice.Request{Charge: sluice.Charge{Cost: cost}}})
		}
		if got, want := appendRuns(nil, jobs), appendNumbers(nil, c.want...); !bytes.Equal(got, want) {
			t.Errorf("costs %d: got %x, want the runs %d", c.costs, got, c.want)
		}
	}
}
