// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestCallersThatLeave: callers that leave a server which hangs leave no more
// behind than a bounded number of requests, however many they are, and when the
// server is back all is as before.
func TestCallersThatLeave(t *testing.T) {
	const most = 1024 // requests that are left, and with them those of all callers
	server, cluster := redistest.Shared(t, redistest.Redis(t)), redistest.SharedCluster(t, redistest.Redis(t))
	each := testkit.Steps(30, 100)
	for _, c := range []struct {
		name    string
		callers int
		each    int // requests of a caller
		keys    int
		at      servers
		servers []*redistest.Server
	}{
		{"of one key", 64, each, 1, server, []*redistest.Server{server}},
		{"of many keys", 64, each, 64 * each, server, []*redistest.Server{server}},
		{"many at once", testkit.Steps(1500, 3000), testkit.Steps(2, 4), 12_000, server, []*redistest.Server{server}},
		{"of many keys, Cluster", 64, each, 64 * each, cluster, cluster.Masters}, // where each request is sent by itself
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.at, redisstore.Options{Timeout: testkit.Ceiling, Prefix: t.Name()})
			l := testkit.Limiter(t, s, "scope", "1000000/h")
			if _, err := l.Take(t.Context(), "first", 1); err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			release := redistest.HoldUp(t, c.servers...)
			var group sync.WaitGroup
			var mu sync.Mutex
			overloaded, highest := 0, 0
			for caller := range c.callers {
				group.Go(func() {
					for n := range c.each {
						ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
						_, err := l.Take(ctx, fmt.Sprint("k", (caller*c.each+n)%c.keys), 1)
						cancel()
						_, unsent := errors.AsType[*sluice.NotSentError](err)
						_, sent := errors.AsType[*sluice.MaybeSentError](err)
						mu.Lock()
						highest = max(highest, runtime.NumGoroutine())
						switch {
						case sent == unsent:
							t.Errorf("got %v, which does not say whether it was sent", err)
						case unsent && errors.Is(err, redisstore.ErrOverloaded):
							overloaded++
						case !errors.Is(err, context.DeadlineExceeded):
							t.Errorf("got %v", err)
						}
						mu.Unlock()
					}
				})
			}
			group.Wait()
			t.Logf("%d goroutines before, %d at most; %d of %d requests found no room", before, highest, overloaded, c.callers*c.each)
			if c.keys > 1 && overloaded == 0 {
				t.Error("every request found room")
			}
			if highest > before+c.callers+2*(most+c.callers) {
				t.Errorf("%d goroutines, want at most %d more than the %d before", highest, c.callers+2*(most+c.callers), before)
			}
			release()
			testkit.Until(t, "all to have ended", func() bool {
				_, err := l.Take(t.Context(), "k0", 1)
				return err == nil && runtime.NumGoroutine() <= before+10
			})
		})
	}
}
