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

	"github.com/redis/rueidis"

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
	server := redistest.Start(t, redistest.Redis(t))
	cluster := redistest.StartCluster(t, redistest.Redis(t), 1, false) // where each request is sent by itself
	for _, c := range []struct {
		name    string
		callers int
		each    int // requests of a caller
		keys    int
		option  rueidis.ClientOption
		server  *redistest.Server
	}{
		{"of one key", 64, 100, 1, server.Option(), server},
		{"of many keys", 64, 100, 6400, server.Option(), server},
		{"many at once", 3000, 4, 12_000, server.Option(), server},
		{"of many keys, Cluster", 64, 100, 6400, cluster.Option(), cluster.Masters[0]},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, c.option, redisstore.Options{Timeout: 20 * time.Second, Prefix: t.Name()})
			l, client := testkit.Limiter(t, s, "scope", "1000000/h"), c.server.Client(t)
			if _, err := l.Take(t.Context(), "first", 1); err != nil {
				t.Fatal(err)
			}
			before := runtime.NumGoroutine()
			release := holdUp(t, client)
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
			for end := time.Now().Add(20 * time.Second); ; <-time.After(5 * time.Millisecond) {
				_, err := l.Take(t.Context(), "k0", 1)
				if err == nil && runtime.NumGoroutine() <= before+10 {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("%d goroutines when the server is back, %v", runtime.NumGoroutine(), err)
				}
			}
		})
	}
}
