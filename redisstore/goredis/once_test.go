// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/redisstore"
)

// throughCutter are clients whose connections a proxy can cut. Their options are
// the defaults, with which go-redis sends again.
var throughCutter = []struct {
	name string
	open func(t *testing.T) (*redistest.Cutter, redis.UniversalClient)
}{
	{"single", func(t *testing.T) (*redistest.Cutter, redis.UniversalClient) {
		t.Helper()
		s := redistest.Start(t, redistest.Redis(t))
		c := redistest.StartCutter(t, s.Addr)
		return c, newSingle(c.Addr)
	}},
	{"cluster", func(t *testing.T) (*redistest.Cutter, redis.UniversalClient) {
		t.Helper()
		cluster := redistest.StartCluster(t, redistest.Redis(t), 1, false)
		s := cluster.Masters[0]
		c := redistest.StartCutter(t, s.Addr)
		o := clusterOptions(cluster)
		o.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, network, c.Addr)
		}
		return c, redis.NewClusterClient(o)
	}},
}

// TestNothingIsSentTwice: where the reply is lost the request may have been
// decided, so it is not sent again, alone or in a pipeline.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	const batch = 5
	for _, c := range throughCutter {
		t.Run(c.name, func(t *testing.T) {
			cutter, client := c.open(t)
			s := until(t, open(t, client, redisstore.Options{Timeout: 10 * time.Second}))
			for _, text := range []string{"1000/day", "1000/day sliding-log", "1000/day sliding-counter"} {
				l := storekit.Limiter(t, s, "scope", text)
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
					if err := do(1); err != nil { // and now the server knows the script
						t.Fatal(err)
					}
					cutter.Cut()
					if err := do(10); err == nil {
						t.Errorf("%s: got no error though the reply was lost", text)
					}
					if cutter.Waits() {
						t.Fatal("no script was sent")
					}
				}
				for _, key := range []string{"k", "k0", "k1", "k2", "k3", "k4"} {
					if got := storekit.Spent(t, s, l.Plan(), key); got != 11 {
						t.Errorf("%s: %d units of %s are spent, want 11", text, got, key)
					}
				}
			}
		})
	}
}
