// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// hanging is a Client of servers that never answer.
type hanging struct{ cluster bool }

func (hanging) Run(ctx context.Context, _ []*Script, replies []Reply) {
	<-ctx.Done()
	for i := range replies {
		replies[i].Err = ctx.Err()
	}
}

func (hanging) Info(context.Context) (map[string]string, error) { return nil, nil }

func (h hanging) Cluster() bool { return h.cluster }

// TestBatchHasOneTimeout: a batch has no longer than one request, even if each of its requests
// waits for the one before and other callers wait for the server.
func TestBatchHasOneTimeout(t *testing.T) {
	for _, servers := range []hanging{{}, {cluster: true}} {
		synctest.Test(t, func(t *testing.T) {
			const timeout, n = 200 * time.Millisecond, 60
			s := testkit.Closed(t, newStore(servers, Options{Prefix: defaultPrefix, Timeout: timeout, Logger: slog.New(slog.DiscardHandler)}))
			p := testkit.Plan(t, "scope", "1000/day")
			var wg sync.WaitGroup
			for caller := range 4 {
				var reqs []sluice.Request
				for i := range n {
					req := testkit.Request(p, fmt.Sprint("k", i), 1)
					switch {
					case i%2 == 0:
					case caller%2 == 0:
						req.Op = sluice.OpAdd
					default:
						req.Slot = &sluice.Slot{SlotRequest: sluice.SlotRequest{
							Scope: "scope", Limit: sluice.SlotLimit{Name: "slots", Cap: 1, TTL: time.Minute}, Key: req.Key, Owner: "o", Cost: 1,
						}}
					}
					reqs = append(reqs, req)
				}
				wg.Go(func() {
					began, out := time.Now(), make([]sluice.Result, n)
					if err := s.TakeBatch(context.Background(), reqs, out); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > timeout {
						t.Errorf("cluster %v: it took %v, and each has a Timeout of %v", servers.cluster, took, timeout)
					}
					for i, r := range out {
						if !errors.Is(r.Err, context.DeadlineExceeded) {
							t.Errorf("request %d: got %v, want %v", i, r.Err, context.DeadlineExceeded)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
