// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"errors"
	"io"
	"testing"
	"time"

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

// open returns a store over a client, which ends with it.
func open(t *testing.T, client redis.UniversalClient, options redisstore.Options) owner {
	t.Helper()
	return owner{newStore(t, client, options), client}
}

// owner is a store that closes its client, as a program does.
type owner struct {
	*redisstore.Store
	client io.Closer
}

func (o owner) Close() error { return errors.Join(o.Store.Close(), o.client.Close()) }

// until has the test close c when it ends.
func until[T io.Closer](t *testing.T, c T) T {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
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

// holdUp makes servers wait with writes until resume is called.
func holdUp(t *testing.T, servers ...*redistest.Server) (resume func()) {
	t.Helper()
	var clients []*redis.Client
	for _, s := range servers {
		c := until(t, newSingle(s.Addr))
		clients = append(clients, c)
		if err := c.Do(t.Context(), "CLIENT", "PAUSE", "60000", "WRITE").Err(); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		for _, c := range clients {
			if err := c.ClientUnpause(t.Context()).Err(); err != nil {
				t.Error(err)
			}
		}
	}
}

// blocked waits until so many clients wait for the server to go on.
func blocked(t *testing.T, s *redistest.Server, n string) {
	t.Helper()
	c := until(t, newSingle(s.Addr))
	await(t, "callers to wait for the server", func() bool {
		return c.InfoMap(t.Context(), "clients").Item("Clients", "blocked_clients") == n
	})
}

// await asks until is says that it is so.
func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("wait for %s: in vain", what)
		}
	}
}
