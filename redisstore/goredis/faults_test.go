// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluicegate/sluice/internal/redistest/faults"
	"github.com/sluicegate/sluice/internal/storeurl"
	"github.com/sluicegate/sluice/redisstore"
)

// client leaves out faults in which the servers' answers alone matter, or which
// are much like another.
var client = faults.Client{Open: openFor, Answer: answer, Only: []string{
	"SIGKILL and restart with empty memory", "SIGSTOP and SIGCONT", "READONLY", "LOADING", "network swallows", "network cuts",
	"Sentinel failover", "Cluster failover", "Cluster moves slots",
}}

// openFor returns a store over a client with the options that the package's
// documentation recommends.
func openFor(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
	t.Helper()
	u, err := storeurl.Parse(at.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	o := &redis.UniversalOptions{
		Addrs: u.Addresses, MasterName: u.Master, IsClusterMode: u.Kind == storeurl.Cluster,
		ClientName: "sluice", DialTimeout: time.Second, ContextTimeoutEnabled: true,
	}
	if at.Steady {
		o.PoolSize, o.PipelinePoolSize = 1, -1 // a pool only for pipelines would grow with the load
	}
	return open(t, redis.NewUniversalClient(o), options)
}

func answer(err error) (string, bool) {
	refused, ok := errors.AsType[redis.Error](err)
	if !ok {
		return "", false
	}
	return refused.Error(), true
}

func TestInvariant17SumOverNodes(t *testing.T) { t.Parallel(); client.TestSumOverNodes(t) }
func TestInvariant17LinearizableOverNodes(t *testing.T) {
	t.Parallel()
	client.TestLinearizableOverNodes(t)
}
func TestInvariant19DenyCache(t *testing.T)    { client.TestDenyCache(t) }
func TestInvariant20Leases(t *testing.T)       { client.TestLeases(t) }
func TestInvariant22StoreDown(t *testing.T)    { client.TestStoreDown(t) }
func TestInvariant23Failover(t *testing.T)     { client.TestFailover(t) }
func TestLateAnswersAreGivenBack(t *testing.T) { client.TestLateAnswersAreGivenBack(t) }
func TestNothingGrows(t *testing.T)            { client.TestNothingGrows(t) }
func TestSpentIsTold(t *testing.T)             { client.TestSpentIsTold(t) }
func TestWrappedConformance(t *testing.T)      { t.Parallel(); client.TestWrappedConformance(t) }
