// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// throughCutter are clients whose connections a proxy can cut. They have the default options,
// under which go-redis sends again.
var throughCutter = []struct {
	name string
	open func(t *testing.T) (*redistest.Proxy, redis.UniversalClient)
}{
	{"single", func(t *testing.T) (*redistest.Proxy, redis.UniversalClient) {
		t.Helper()
		s := redistest.Start(t, redistest.Redis(t))
		c := redistest.StartProxy(t, s.Addr)
		return c, newSingle(c.Addr)
	}},
	{"cluster", func(t *testing.T) (*redistest.Proxy, redis.UniversalClient) {
		t.Helper()
		cluster := redistest.StartCluster(t, redistest.Redis(t), 1, false)
		s := cluster.Masters[0]
		c := redistest.StartProxy(t, s.Addr)
		o := clusterOptions(cluster)
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, c.Addr)
		}
		return c, redis.NewClusterClient(o)
	}},
}

// TestNothingIsSentTwice: a request whose reply is lost may have been decided, so it is not
// sent again, alone or in a pipeline.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	const batch = 5
	for _, c := range throughCutter {
		t.Run(c.name, func(t *testing.T) {
			cutter, client := c.open(t)
			s := testkit.Closed(t, open(t, client, redisstore.Options{Timeout: testkit.Ceiling}))
			for _, text := range []string{"1000/day", "1000/day sliding-log", "1000/366day sliding-counter"} {
				l := testkit.Limiter(t, s, "scope", text)
				take := func(cost int64) error {
					_, err := l.Take(t.Context(), "k", cost)
					return err
				}
				takeAll := func(cost int64) error {
					reqs, out := make([]sluice.Request, batch), make([]sluice.Result, batch)
					for i := range reqs {
						reqs[i].Charge = l.Of(fmt.Sprint("k", i), cost)
					}
					if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
						t.Fatal(err)
					}
					return out[batch-1].Err
				}
				for _, do := range []func(int64) error{take, takeAll} {
					if err := do(1); err != nil { // now the server knows the script
						t.Fatal(err)
					}
					cutter.CutNext()
					if err := do(10); err == nil {
						t.Errorf("%s: got no error though the reply was lost", text)
					}
					if cutter.CutWaits() {
						t.Fatal("no script was sent")
					}
				}
				for _, key := range []string{"k", "k0", "k1", "k2", "k3", "k4"} {
					if got := testkit.Spent(t, s, l.Plan(), key); got != 11 {
						t.Errorf("%s: %d units of %s are spent, want 11", text, got, key)
					}
				}
			}
		})
	}
}

// TestRefusedFirstOfSeveral: if the server refuses the first script of a pipeline for now, the
// scripts that have run do not run again with it.
func TestRefusedFirstOfSeveral(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, redistest.Redis(t), 2, false)
	s := testkit.Closed(t, open(t, redis.NewClusterClient(clusterOptions(cluster)), redisstore.Options{Timeout: testkit.Ceiling}))
	two, one := testkit.Limiter(t, s, "two", "1000/day", "1000/day sliding-log"), testkit.Limiter(t, s, "one", "1000/day")
	nodes := [2]*redis.Client{testkit.Closed(t, newSingle(cluster.Masters[0].Addr)), testkit.Closed(t, newSingle(cluster.Masters[1].Addr))}
	here := func(c *redis.Client, pattern string) []string {
		t.Helper()
		list, err := c.Keys(t.Context(), pattern).Result()
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	if _, err := two.Take(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	from, to, target := nodes[0], nodes[1], cluster.Masters[1]
	if len(here(from, "*two/k*")) == 0 {
		from, to, target = nodes[1], nodes[0], cluster.Masters[0]
	}
	key := ""
	for n := 0; key == ""; n++ {
		name := fmt.Sprint("other", n)
		if _, err := one.Take(t.Context(), name, 1); err != nil {
			t.Fatal(err)
		}
		if len(here(from, "*one/"+name+"}*")) > 0 {
			key = name
		}
	}
	moved := here(from, "*two/k*")
	if len(moved) != 2 {
		t.Fatalf("got keys %q, want those of two limits", moved)
	}
	slot := from.ClusterKeySlot(t.Context(), moved[0]).Val()
	for _, c := range []struct {
		on   *redis.Client
		args []any
	}{
		{to, []any{"CLUSTER", "SETSLOT", slot, "IMPORTING", from.ClusterMyID(t.Context()).Val()}},
		{from, []any{"CLUSTER", "SETSLOT", slot, "MIGRATING", to.ClusterMyID(t.Context()).Val()}},
		{from, []any{"MIGRATE", "127.0.0.1", target.Port, moved[0], 0, 60_000}},
	} {
		if err := c.on.Do(t.Context(), c.args...).Err(); err != nil {
			t.Fatalf("%v: %v", c.args, err)
		}
	}
	out := make([]sluice.Result, 2)
	if err := s.TakeBatch(t.Context(), []sluice.Request{{Charge: two.Of("k", 1)}, {Charge: one.Of(key, 10)}}, out); err != nil {
		t.Fatal(err)
	}
	if out[0].Err == nil || !strings.Contains(out[0].Err.Error(), "TRYAGAIN") {
		t.Errorf("keys on two nodes: got %+v, want TRYAGAIN", out[0])
	}
	if got := testkit.Spent(t, s, one.Plan(), key); got != 11 || out[1].Err != nil {
		t.Errorf("%d units are spent, %v; want 11, taken once", got, out[1].Err)
	}
}
