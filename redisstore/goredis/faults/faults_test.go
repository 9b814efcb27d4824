// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package faults_test

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/internal/redistest/faults"
	"github.com/sluicegate/sluice/internal/storeurl"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// client leaves out faults in which the servers' answers alone matter, or which
// are much like another.
var client = faults.Client{Open: open, Answer: answer, Only: []string{
	"SIGKILL and restart with empty memory", "SIGSTOP and SIGCONT", "READONLY", "LOADING", "network cuts",
	"Sentinel failover", "Cluster failover", "Cluster moves slots",
}}

// open returns a store over a client with the options that the package's
// documentation recommends.
func open(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
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
	client := redis.NewUniversalClient(o)
	s, err := goredis.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return owner{s, client}
}

// owner is a store that closes its client, as a program does.
type owner struct {
	*redisstore.Store
	client io.Closer
}

func (o owner) Close() error { return errors.Join(o.Store.Close(), o.client.Close()) }

func answer(err error) (string, bool) {
	refused, ok := errors.AsType[redis.Error](err)
	if !ok {
		return "", false
	}
	return refused.Error(), true
}

func TestInvariant17SumOverNodes(t *testing.T)          { client.TestSumOverNodes(t) }
func TestInvariant17LinearizableOverNodes(t *testing.T) { client.TestLinearizableOverNodes(t) }
func TestInvariant19DenyCache(t *testing.T)             { client.TestDenyCache(t) }
func TestInvariant20Leases(t *testing.T)                { client.TestLeases(t) }
func TestInvariant22StoreDown(t *testing.T)             { client.TestStoreDown(t) }
func TestInvariant23Failover(t *testing.T)              { client.TestFailover(t) }
func TestLateAnswersAreGivenBack(t *testing.T)          { client.TestLateAnswersAreGivenBack(t) }
func TestNothingGrows(t *testing.T)                     { client.TestNothingGrows(t) }
func TestSpentIsReported(t *testing.T)                  { client.TestSpentIsReported(t) }
