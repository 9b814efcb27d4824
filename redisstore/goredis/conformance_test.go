// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/storetest"
)

// conform runs the suite. Each part has an empty store under a prefix of its own.
func conform(t *testing.T, client redis.UniversalClient, servers ...*redistest.Server) {
	t.Helper()
	testkit.Closed(t, client)
	storetest.Test(t, func(t *testing.T, _ func() time.Time) storetest.Harness {
		s := testkit.Closed(t, newStore(t, client, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling}))
		h := storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: 100, Stall: func(t *testing.T) func() {
			t.Helper()
			return redistest.HoldUp(t, servers...)
		}}
		if len(servers) > 1 {
			h.Together = 500 * time.Millisecond // beyond that each server may decide at an instant of its own
		}
		return h
	})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	binary := redistest.Redis(t)
	t.Run("single", func(t *testing.T) {
		t.Parallel()
		s := redistest.Start(t, binary)
		conform(t, newSingle(s.Addr), s)
	})
	t.Run("sentinel", func(t *testing.T) {
		testkit.Long(t)
		t.Parallel()
		s := redistest.StartSentinel(t, binary)
		conform(t, newSentinel(s), s.Master)
	})
	t.Run("cluster", func(t *testing.T) {
		testkit.Long(t)
		t.Parallel()
		c := redistest.StartCluster(t, binary, 3, false)
		conform(t, redis.NewClusterClient(clusterOptions(c)), c.Masters...)
	})
}
