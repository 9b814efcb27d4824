// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

// newStore returns a store over a client.
func newStore(t *testing.T, client redis.UniversalClient, options redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := goredis.New(client, options)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// owner is a store that also closes its client, as a program does.
type owner struct {
	*redisstore.Store
	client redis.UniversalClient
}

// Close implements [io.Closer].
func (o owner) Close() error { return errors.Join(o.Store.Close(), o.client.Close()) }

// open returns a store over a client that closes with it.
func open(t *testing.T, client redis.UniversalClient, options redisstore.Options) owner {
	t.Helper()
	return owner{newStore(t, client, options), client}
}

// newSingle returns a client of one server with the default options.
func newSingle(addr string) *redis.Client { return redis.NewClient(&redis.Options{Addr: addr}) }

func newSentinel(s *redistest.Sentinel) *redis.Client {
	o := &redis.FailoverOptions{MasterName: redistest.MasterSet}
	for _, n := range s.Sentinels {
		o.SentinelAddrs = append(o.SentinelAddrs, n.Addr)
	}
	return redis.NewFailoverClient(o)
}

func clusterOptions(c *redistest.Cluster) *redis.ClusterOptions {
	o := &redis.ClusterOptions{}
	for _, s := range append(c.Masters, c.Replicas...) {
		o.Addrs = append(o.Addrs, s.Addr)
	}
	return o
}
