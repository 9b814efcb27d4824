// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clienttest

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// leaves sends a request whose deadline ends before the answer, and returns the error of that. A
// request that a busy machine has not sent by then is made again with a later deadline.
func leaves(t *testing.T, take func(context.Context) error) *sluice.MaybeSentError {
	t.Helper()
	for within := 50 * time.Millisecond; ; within *= 4 {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		err := take(ctx)
		cancel()
		maybe, ok := errors.AsType[*sluice.MaybeSentError](err)
		_, unsent := errors.AsType[*sluice.NotSentError](err)
		switch {
		case !errors.Is(err, context.DeadlineExceeded) || ok == unsent || unsent && within > testkit.Ceiling/4:
			t.Fatalf("got %v, want a MaybeSentError of %v", err, context.DeadlineExceeded)
		case ok:
			return maybe
		}
	}
}

// wantUnsent fails the test unless err says that nothing was sent.
func wantUnsent(t *testing.T, err, why error) {
	t.Helper()
	if _, ok := errors.AsType[*sluice.NotSentError](err); !ok || why != nil && !errors.Is(err, why) {
		t.Errorf("got %v, want a NotSentError of %v", err, why)
	}
}

// LateOperationsAreUndone checks that a request of any operation, decided in any way, has no
// effect after its caller has left and called Undo.
func LateOperationsAreUndone(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Shared(t, redistest.Redis(t))
	cluster := redistest.SharedCluster(t, redistest.Redis(t))
	for name, c := range map[string]struct {
		at      Servers
		servers []*redistest.Server
	}{
		"single": {server, []*redistest.Server{server}},
		"across": {cluster, cluster.Masters},
	} {
		log, other := testkit.Plan(t, "log", "100/h sliding-log"), testkit.Plan(t, "other", "50/h fixed-window anchor first")
		deficit, changed := testkit.Plan(t, "deficit", "100/h initial 50"), testkit.Plan(t, "log", "90/h sliding-log")
		one := func(p *sluice.Plan, op sluice.Op, cost int64) sluice.Request {
			return sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Key: "k", Cost: cost}}
		}
		several := one(log, sluice.OpTake, 3)
		several.More = []sluice.Charge{{Plan: other, Key: "l", Cost: 2}}
		reserve := one(log, sluice.OpReserve, 4)
		reserve.MaxWait = time.Minute
		for what, req := range map[string]sluice.Request{
			"take": one(log, sluice.OpTake, 5), "take up to": one(log, sluice.OpTakeUpTo, 7), "reserve": reserve, "several": several,
			"start of a rule": one(deficit, sluice.OpTake, 3), "changed limit": one(changed, sluice.OpTake, 3),
		} {
			t.Run(name+", "+what, func(t *testing.T) {
				s := open(t, c.at, redisstore.Options{Timeout: testkit.Ceiling, Prefix: t.Name()})
				before := int64(0)
				if what == "changed limit" {
					testkit.Take(t, s, one(log, sluice.OpTake, 1))
					before = 1
				}
				resume := redistest.HoldUp(t, c.servers...)
				maybe := leaves(t, func(ctx context.Context) error {
					_, err := s.Take(ctx, req)
					return err
				})
				heard := make(chan sluice.Late, 1)
				maybe.Undo(func(l sluice.Late) { heard <- l })
				resume()
				if l := <-heard; l.Err != nil || !l.Undone {
					t.Errorf("heard %+v, want it undone", l)
				}
				for i := range req.Charges() {
					ch := req.Nth(i)
					if got := testkit.Spent(t, s, ch.Plan, ch.Key); what != "start of a rule" && got != before || got > 50 {
						t.Errorf("got %d units of %s spent, want %d", got, ch.Plan.Scope(), before)
					}
				}
			})
		}
	}
}

// LateCallersAreUndone checks that callers that share a call undo separately, and that a
// caller that left before the call has spent nothing.
func LateCallersAreUndone(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "1000/h sliding-log")
	if _, err := l.Take(t.Context(), "k", 0); err != nil { // so that the server knows the script
		t.Fatal(err)
	}
	// leave sends a request, and leaves when the returned function is called.
	leave := func(key string, cost int64) (now func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		wait := Line(1, func(int) {
			_, err := l.Take(ctx, key, cost)
			result <- err
		})
		return func() error {
			cancel()
			wait()
			return <-result
		}
	}
	for pause := 20 * time.Millisecond; ; pause *= 4 { // meanwhile the other callers get as far as they can
		key := pause.String()
		release := redistest.HoldUp(t, server)
		first := leave(key, 1)
		redistest.AwaitBlocked(t, server, "1")
		gone, undone, kept := leave(key, 100), leave(key, 10), leave(key, 40)
		stays := Line(1, func(int) {
			if _, err := l.Take(context.Background(), key, 20); err != nil {
				t.Errorf("who stays: got %v", err)
			}
		})
		<-time.After(pause)
		unsent := gone()
		firstErr := first() // now the other requests are sent together
		<-time.After(pause)
		errs := []error{firstErr, undone(), kept()}
		release()
		stays()
		wantUnsent(t, unsent, context.Canceled)
		heard := make(chan sluice.Late, len(errs))
		said := 0
		for i, err := range errs {
			if maybe, ok := errors.AsType[*sluice.MaybeSentError](err); ok {
				said++
				if i == 1 {
					maybe.Undo(func(l sluice.Late) { heard <- l })
				} else {
					maybe.Keep(func(l sluice.Late) { heard <- l })
				}
			}
		}
		for range said {
			if l := <-heard; l.Err != nil || !l.Decision.Allowed {
				t.Errorf("heard %+v", l)
			}
		}
		switch {
		case said == len(errs):
			if got := testkit.Spent(t, s, l.Plan(), key); got != 1+20+40 {
				t.Errorf("got %d units spent, want those of the first, of who stays, and of who keeps his: 61", got)
			}
			return
		case pause > testkit.Ceiling:
			t.Fatalf("they were not sent together: %v", errs)
		}
	}
}

// Unsent checks that a request that was never sent returns a NotSentError.
func Unsent(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "5/min")
	slots, err := sluice.NewSlots(s, "scope", sluice.SlotLimit{Cap: 1, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ways := map[string]func(context.Context) error{
		"take": func(ctx context.Context) error {
			_, err := l.Take(ctx, "k", 1)
			return err
		},
		"batch": func(ctx context.Context) error {
			out := make([]sluice.Result, 1)
			err := s.TakeBatch(ctx, []sluice.Request{{Charge: l.Of("k", 1)}}, out)
			return errors.Join(err, out[0].Err)
		},
		"slot": func(ctx context.Context) error {
			_, err := slots.Acquire(ctx, "k", "o", 1)
			return err
		},
	}
	all := func(ctx context.Context, why error) {
		t.Helper()
		for _, ask := range ways {
			wantUnsent(t, ask(ctx), why)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	all(ended, context.Canceled)

	if err := server.Process().Kill(); err != nil {
		t.Fatal(err)
	}
	// Wait until every connection is known to be gone; there may be several.
	end := time.Now().Add(testkit.Ceiling)
	for inRow := 0; inRow < 50; {
		for name, ask := range ways {
			err := ask(t.Context())
			if gone, ok := errors.AsType[*net.OpError](err); ok && gone.Op == "dial" {
				inRow++
				continue
			}
			if inRow = 0; time.Now().After(end) {
				t.Fatalf("%s: the server is gone: got %v", name, err)
			}
			<-time.After(time.Millisecond)
		}
	}
	all(t.Context(), nil)
	all(context.Background(), nil)

	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	all(t.Context(), sluice.ErrClosed)
}

// WordsToAClosedStore checks that a caller that calls Undo after Close learns that nothing was
// undone.
func WordsToAClosedStore(t *testing.T, open Open) {
	t.Helper()
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "5/h")
	release := redistest.HoldUp(t, server)
	maybe := leaves(t, func(ctx context.Context) error {
		_, err := l.Take(ctx, "k", 1)
		return err
	})
	release()
	if err := s.Close(); err != nil { // it waits for the answer
		t.Fatal(err)
	}
	heard := make(chan sluice.Late, 1)
	maybe.Undo(func(l sluice.Late) { heard <- l })
	if l := <-heard; l.Err != nil || !l.Decision.Allowed || l.Undone {
		t.Errorf("heard %+v, want that it was allowed and is not undone", l)
	}
}
