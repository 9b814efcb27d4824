// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// CallersThatLeave checks that any number of callers that leave while a server hangs leave at
// most a bounded number of requests behind, and that the store recovers when the server is
// back.
func CallersThatLeave(t *testing.T, open Open) {
	t.Helper()
	const most = 1024 // largest number of requests left behind by all callers
	server, cluster := redistest.Shared(t, redistest.Redis(t)), redistest.SharedCluster(t, redistest.Redis(t))
	each := testkit.Steps(30, 100)
	for _, c := range []struct {
		name    string
		callers int
		each    int // requests of a caller
		keys    int
		at      Servers
		servers []*redistest.Server
	}{
		{"of one key", 64, each, 1, server, []*redistest.Server{server}},
		{"of many keys", 64, each, 64 * each, server, []*redistest.Server{server}},
		{"many at once", testkit.Steps(1500, 3000), testkit.Steps(2, 4), 12_000, server, []*redistest.Server{server}},
		{"of many keys, Cluster", 64, each, 64 * each, cluster, cluster.Masters}, // each request is sent by itself
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
			end := time.Now().Add(testkit.Ceiling / 2) // the store waits longer for their answers
			for caller := range c.callers {
				group.Go(func() {
					for n, more := 0, true; more; n++ {
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
						// On a slow machine few of the requests are sent before their time is over.
						more = n+1 < c.each || c.keys > 1 && overloaded == 0 && time.Now().Before(end)
						mu.Unlock()
					}
				})
			}
			group.Wait()
			t.Logf("%d goroutines before, %d at most; %d requests found no room", before, highest, overloaded)
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

// OutagesLeaveNothing checks that there are no more goroutines and connections after many
// outages than before.
func OutagesLeaveNothing(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Shared(t, redistest.Redis(t))
	proxy := redistest.StartProxy(t, server.Addr)
	s := open(t, &redistest.Server{Addr: proxy.Addr}, redisstore.Options{Timeout: 20 * time.Millisecond})
	l := testkit.Limiter(t, s, "scope", "1000000/h")
	decides := func() bool {
		_, err := l.Take(context.Background(), "a", 1) // starts no lasting goroutine
		return err == nil
	}
	held := func() (goroutines, files int) {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip(err)
		}
		return runtime.NumGoroutine(), len(list)
	}
	testkit.Until(t, "a decision", decides)
	goroutines, files := held()
	for n := range testkit.Steps(50, 1000) {
		proxy.Set([]redistest.Manner{redistest.Swallowing, redistest.Cutting}[n%2])
		Line(4, func(i int) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			_, err := l.Take(ctx, []string{"a", "b"}[i%2], 1)
			if maybe, ok := errors.AsType[*sluice.MaybeSentError](err); ok && i > 0 {
				maybe.Undo(nil)
			}
		})()
		proxy.Set(redistest.Cutting)
		proxy.Set(redistest.Faithful)
		testkit.Until(t, "a decision", decides)
	}
	var g, f int
	defer func() { t.Logf("%d goroutines and %d files, before there were %d and %d", g, f, goroutines, files) }()
	testkit.Until(t, "goroutines and files to be as many as before", func() bool {
		g, f = held()
		return g <= goroutines && f <= files
	})
}

// started returns how many goroutines the process has started.
func started(t *testing.T) uint64 {
	t.Helper()
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	if metrics.Read(sample); sample[0].Value.Kind() != metrics.KindUint64 {
		t.Skip("the runtime does not report it")
	}
	return sample[0].Value.Uint64()
}

// NoGoroutinePerCall checks that calls that may be left share few goroutines.
func NoGoroutinePerCall(t *testing.T, open Open) {
	t.Helper()
	const callers = 32
	calls := testkit.Steps(3200, 10_000)
	server := redistest.Shared(t, redistest.Redis(t))
	for name, key := range map[string]func(int) string{
		"one key":    func(int) string { return "k" },
		"a key each": func(i int) string { return string(rune('a' + i)) },
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling, Prefix: t.Name()})
			l := testkit.Limiter(t, s, "scope", "1000000/h")
			before, now := started(t), runtime.NumGoroutine()
			var mu sync.Mutex
			highest := 0
			Line(callers, func(i int) {
				for range calls / callers {
					ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
					_, err := l.Take(ctx, key(i), 1)
					cancel()
					if err != nil {
						t.Error(err)
					}
				}
				mu.Lock()
				highest = max(highest, runtime.NumGoroutine())
				mu.Unlock()
			})()
			if most := now + 4*callers + 20; highest > most {
				t.Errorf("%d goroutines at once, want at most %d", highest, most)
			}
			if got := started(t) - before; got > uint64(calls/10) {
				t.Errorf("%d goroutines were started for %d calls", got, calls)
			}
		})
	}
}
