// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/teststore"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/remote"
)

// TestShortDeadlineLiftsNoLimit: callers whose own deadlines end before the store answers, or
// before they call, get neither units nor slots under any failure policy, and units that the
// store has charged them are given back.
func TestShortDeadlineLiftsNoLimit(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	const quota, slots, callers = 5, 2, 10
	limits := []policy.Limit{{Limit: sluice.MustParseLimit("5/h sliding-log")}}
	inFlight := &sluice.SlotLimit{Cap: slots, TTL: time.Hour}
	for _, store := range []struct {
		name   string
		manner redistest.Manner
		takes  time.Duration // approximate time of a call of the store
	}{{"quick", redistest.Faithful, 2 * time.Millisecond}, {"slow", redistest.Lagging, 300 * time.Millisecond}} {
		for _, failure := range []sluice.Failure{sluice.FailOpen, sluice.FailLocal} {
			for _, rule := range []struct {
				name  string
				level policy.Level
				most  int
			}{
				{"units", policy.Level{Limits: limits}, quota},
				{"slots", policy.Level{InFlight: inFlight}, slots},
				{"both", policy.Level{Limits: limits, InFlight: inFlight}, slots},
			} {
				t.Run(store.name+" "+failure.String()+" "+rule.name, func(t *testing.T) {
					t.Parallel()
					proxy := redistest.StartProxy(t, server.Addr)
					redis := teststore.New(t, proxy.Addr, redisstore.Options{Prefix: t.Name(), Timeout: testkit.Ceiling})
					far := testkit.Closed(t, wrap(t, redis, remote.Options{Timeout: testkit.Ceiling}))
					front, err := evaluate.New(evaluate.Options{
						Store:   far,
						Rules:   []policy.Rule{{Name: "r", Failure: failure, Levels: []policy.Level{rule.level}}},
						OnError: func(_ context.Context, _ policy.Attributes, err error) { t.Error(err) },
					})
					if err != nil {
						t.Fatal(err)
					}
					proxy.Set(store.manner)
					var ran, left atomic.Int64
					var group sync.WaitGroup
					ask := func(ctx context.Context) {
						var c evaluate.Call
						front.Decide(ctx, (&policy.Request{}).Attributes(), &c)
						switch {
						case c.Verdict.Passes():
							ran.Add(1) // and never ends: no caller settles it
						case c.Verdict == evaluate.Abandoned && errors.Is(c.Err, context.DeadlineExceeded):
							left.Add(1)
						case c.Verdict != evaluate.Denied:
							t.Errorf("%v: %v", c.Verdict, c.Err)
						}
					}
					for after := -time.Microsecond; after <= 2*store.takes; after = max(after*3/2, after+time.Microsecond) {
						for range callers {
							group.Go(func() {
								ctx, cancel := context.WithTimeout(t.Context(), after)
								defer cancel()
								ask(ctx)
							})
						}
					}
					group.Wait()
					if n := ran.Load(); n > int64(rule.most) {
						t.Errorf("%d ran, want at most %d", n, rule.most)
					}
					if left.Load() < 2*callers { // those of -1 and 0 µs
						t.Errorf("%d left", left.Load())
					}
					proxy.Set(redistest.Faithful)
					testkit.Until(t, "all that is left to be had", func() bool {
						ask(t.Context())
						return ran.Load() >= int64(rule.most)
					})
					ask(t.Context())
					if n := ran.Load(); n != int64(rule.most) {
						t.Errorf("%d ran in all, want %d", n, rule.most)
					}
				})
			}
		}
	}
}

// TestEndedContextIsRefused: a Limiter with a remote store refuses a caller whose deadline has
// passed, whether its timer has run or not.
func TestEndedContextIsRefused(t *testing.T) {
	s := testkit.Closed(t, wrap(t, newFaulty(), remote.Options{Policy: sluice.FailOpen}))
	l := testkit.Limiter(t, s, "api", "5/h")
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for _, ctx := range []context.Context{ctx, untimed{t.Context()}} {
		if d, err := l.Take(ctx, "k", 1); !errors.Is(err, context.DeadlineExceeded) || d.Allowed {
			t.Errorf("got %+v, %v", d, err)
		}
	}
}

// untimed is a context with a deadline that has passed, and a timer that has not run.
type untimed struct{ context.Context } //nolint:containedctx // it is a context itself

func (untimed) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// TestSilentStoreIsNoticed: a store that does not answer is unavailable, even if no caller
// waits for the whole Timeout.
func TestSilentStoreIsNoticed(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Timeout: 70 * time.Millisecond})
		defer end(t, f, s)
		f.set(deaf)
		l := testkit.Limiter(t, s, "api", "5/h")
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			if _, err := l.Take(ctx, "k", 1); s.Err() != nil {
				cancel()
				return
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			time.Sleep(100 * time.Millisecond)
		}
		t.Error("the outage is not noticed")
	})
}
