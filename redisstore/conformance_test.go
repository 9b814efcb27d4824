// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/storetest"
)

// open returns a store over a client of its own, both closed when the test ends.
func open(t *testing.T, option rueidis.ClientOption, options redisstore.Options) *redisstore.Store {
	t.Helper()
	option.DisableCache, option.DisableRetry = true, true
	s, err := redisstore.Over(redistest.Connect(t, option), options)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// conform runs the suite on an empty store under a prefix of its own for each
// part.
func conform(t *testing.T, option rueidis.ClientOption, options redisstore.Options, servers ...*redistest.Server) {
	t.Helper()
	storetest.Test(t, func(t *testing.T, _ func() time.Time) storetest.Harness {
		options.Prefix = t.Name()
		options.Timeout = testkit.Ceiling // other tests keep the machine busy
		s := open(t, option, options)
		h := storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: testkit.Steps(1000, 3000), Stall: func(t *testing.T) func() {
			t.Helper()
			return redistest.HoldUp(t, servers...)
		}}
		if len(servers) > 1 {
			h.Together = 500 * time.Millisecond // beyond that each server may decide at its own
		}
		return h
	})
}

func TestConformance(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Run("single", func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, b)
				conform(t, server.Option(), redisstore.Options{}, server)
			})
			t.Run("cluster", func(t *testing.T) {
				testkit.Long(t)
				t.Parallel()
				cluster := redistest.StartCluster(t, b, 3, false)
				conform(t, cluster.Option(), redisstore.Options{Secret: []byte("a secret of sixteen")}, cluster.Masters...)
			})
		})
	}
}
