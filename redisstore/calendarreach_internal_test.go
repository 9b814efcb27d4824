// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// TestEdgesReachOtherLimits: the calendar edges of a limit reach as far as a reservation under
// a longer window of the same request. Seed 1795907527785625248 of TestScriptsEqualAlgo has
// found a month that was counted too early.
func TestEdgesReachOtherLimits(t *testing.T) {
	plan, err := sluice.Compile("s", sluice.MustParseLimit("month: 100/month fixed-window calendar UTC"), sluice.MustParseLimit("year: 10/366day sliding-log"))
	if err != nil {
		t.Fatal(err)
	}
	items := make([]item, plan.Len())
	for i := range items {
		items[i] = item{preparedLimit: &preparedLimit{term: plan.Term(i)}}
	}
	c := call{items: items}
	reach := c.reach()
	if year := (366 * 24 * time.Hour).Microseconds(); reach < year {
		t.Errorf("reservations reach %d µs, want a year at least", reach)
	}
	now := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC).UnixMicro()
	edges := appendEdges(nil, plan.Term(0), now, reach)
	last := math.Float64frombits(binary.BigEndian.Uint64(edges[len(edges)-8:]))
	if int64(last) < now+reach {
		t.Errorf("the last edge is at %v, want it beyond %v", time.UnixMicro(int64(last)), time.UnixMicro(now+reach))
	}
	if alone := (&call{items: items[1:]}).reach(); alone != 0 {
		t.Errorf("without a calendar reservations reach %d, want 0: nobody asks", alone)
	}
}
