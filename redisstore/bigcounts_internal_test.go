// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestCountsBeyondTwoTo53: a counter whose sub-windows count more than a script adds
// exactly, by denials of the same call, decides as one in memory. It kept the server
// busy for ever.
func TestCountsBeyondTwoTo53(t *testing.T) {
	const quota, first, more, hour = 8_775_241_772_656_025, 33_247_074_134_204, 456_169_315_468_346, 3_600_000_000
	var now int64 = 500_000 * hour
	server := redistest.Shared(t, redistest.Redis(t))
	s := bare(server.Client(t))
	s.inject = func() int64 { return now }
	mem := memstore.New(memstore.Options{MaxKeys: 16, Now: func() time.Time { return time.UnixMicro(now) }})
	plan := testkit.Limiter(t, s, "scope", "8775241772656025/hour sliding-counter count-denied sub-windows 10 conservative").Plan()
	for _, step := range []struct {
		after int64 // sub-windows
		costs []int64
	}{{0, []int64{first}}, {1, []int64{quota}}, {7, []int64{more, quota, quota}}, {1, []int64{quota, more}}, {1, []int64{1, more, quota}}} {
		now += step.after * hour / 10
		costs := step.costs
		reqs := make([]sluice.Request, len(costs))
		for i, cost := range costs {
			reqs[i] = testkit.Request(plan, "k", cost)
		}
		got, want := make([]sluice.Result, len(reqs)), make([]sluice.Result, len(reqs))
		if err := s.TakeBatch(t.Context(), reqs, got); err != nil {
			t.Fatal(err)
		}
		if err := mem.TakeBatch(t.Context(), reqs, want); err != nil {
			t.Fatal(err)
		}
		for i := range reqs {
			if got[i] != want[i] {
				t.Errorf("%v, take %d: %+v, in memory %+v", costs, i, got[i], want[i])
			}
		}
	}
}
