// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package faults_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/tests/faults"
)

func TestGoRedis(t *testing.T) {
	client := faults.Client{Open: openGoRedis, Answer: func(err error) (string, bool) {
		refused, ok := errors.AsType[redis.Error](err)
		if !ok {
			return "", false
		}
		return refused.Error(), true
	}, Check: []string{
		"linearizable", "late answers are given back", "SIGKILL and restart with empty memory", "SIGSTOP and SIGCONT", "READONLY", "LOADING",
		"network cuts", "Sentinel failover", "Cluster moves slots",
	}}
	client.Test(t)
}

// openGoRedis returns a store over a client with the options that the documentation of package
// goredis recommends.
func openGoRedis(t *testing.T, at faults.Target, options redisstore.Options) faults.Store {
	t.Helper()
	u, err := redisurl.Parse(at.URL)
	if err != nil {
		t.Fatal(err)
	}
	o := &redis.UniversalOptions{
		Addrs: u.Addresses, MasterName: u.Master, IsClusterMode: u.Cluster,
		ClientName: "sluice", DialTimeout: time.Second, ContextTimeoutEnabled: true,
	}
	if at.Steady {
		o.PoolSize, o.PipelinePoolSize = 1, -1 // a pool only for pipelines would grow with the load
	}
	if at.Patient {
		o.ReadTimeout, o.DialTimeout = testkit.Ceiling, testkit.Ceiling
	}
	client := redis.NewUniversalClient(o)
	s, err := goredis.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return faults.Owner{Store: s, Client: client.Close}
}
