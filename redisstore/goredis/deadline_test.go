// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestNoCallOutlivesItsDeadline: if the server hangs, calls end by themselves, and so does
// Close, also with a client that waits for answers without a timeout.
func TestNoCallOutlivesItsDeadline(t *testing.T) {
	t.Parallel()
	single := redistest.Start(t, redistest.Redis(t))
	cluster := redistest.StartCluster(t, redistest.Redis(t), 1, false)
	forever := clusterOptions(cluster)
	forever.ReadTimeout = -1
	obeys := clusterOptions(cluster)
	obeys.ContextTimeoutEnabled = true
	for _, c := range []struct {
		name   string
		server *redistest.Server
		client redis.UniversalClient
	}{
		{"single", single, redis.NewClient(&redis.Options{Addr: single.Addr, ReadTimeout: -1})},
		{"single, ContextTimeoutEnabled", single, redis.NewClient(&redis.Options{Addr: single.Addr, ReadTimeout: -1, ContextTimeoutEnabled: true})},
		{"cluster", cluster.Masters[0], redis.NewClusterClient(forever)},
		{"cluster, ContextTimeoutEnabled", cluster.Masters[0], redis.NewClusterClient(obeys)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStore(t, c.client, redisstore.Options{Timeout: 50 * time.Millisecond})
			l := testkit.Limiter(t, s, "scope", "5/min")
			c.server.Stop(t)
			var group sync.WaitGroup
			for i := range 20 {
				group.Go(func() {
					if i%2 == 0 {
						if _, err := l.Take(context.Background(), "k", 1); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
						}
						return
					}
					out := make([]sluice.Result, 2)
					err := s.TakeBatch(context.Background(), []sluice.Request{{Charge: l.Of("other", 1)}, {Charge: l.Of("another", 1)}}, out)
					for _, r := range out {
						if err := errors.Join(err, r.Err); !errors.Is(err, context.DeadlineExceeded) {
							t.Errorf("batch: got %v, want %v", err, context.DeadlineExceeded)
						}
					}
				})
			}
			group.Wait()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			c.server.Continue(t)
			if err := c.client.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestNothingLeavesLater: a request whose time ends before it has a connection is reported as
// not sent, and is never sent.
func TestNothingLeavesLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	client := testkit.Closed(t, redis.NewClient(&redis.Options{Addr: server.Addr, PoolSize: 1, ReadTimeout: -1}))
	const timeout = time.Second
	s := testkit.Closed(t, newStore(t, client, redisstore.Options{Timeout: timeout, NoCoalescing: true}))
	patient := testkit.Closed(t, newStore(t, client, redisstore.Options{Timeout: testkit.Ceiling, NoCoalescing: true}))
	l := testkit.Limiter(t, s, "scope", "100/h")
	sure := testkit.Limiter(t, patient, "scope", "100/h")
	if _, err := sure.Take(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	resume := redistest.HoldUp(t, server)
	sent := make(chan error, 1)
	go func() {
		_, err := l.Take(context.Background(), "k", 10)
		sent <- err
	}()
	redistest.AwaitBlocked(t, server, "1")
	for range 3 {
		_, err := l.Take(context.Background(), "k", 20)
		if _, unsent := errors.AsType[*sluice.NotSentError](err); !unsent {
			t.Errorf("without a connection: got %v, want a %T", err, &sluice.NotSentError{})
		}
	}
	err := <-sent
	if _, unsent := errors.AsType[*sluice.NotSentError](err); err == nil || unsent {
		t.Errorf("without an answer: got %v, want an error that does not say that nothing was sent", err)
	}
	resume()
	testkit.Until(t, "the connection to be free", func() bool { // the only one: no request waits for it any more
		_, err := sure.Take(t.Context(), "other", 1)
		return err == nil
	})
	if got := testkit.Spent(t, patient, l.Plan(), "k"); got != 11 {
		t.Errorf("%d units are spent, want the 11 of which one was reported and ten are unknown", got)
	}
}

// TestUnsentIsSaid: a request without a connection returns a NotSentError.
func TestUnsentIsSaid(t *testing.T) {
	t.Parallel()
	binary := redistest.Redis(t)
	isUnsent := func(t *testing.T, s *redisstore.Store) {
		t.Helper()
		l := testkit.Limiter(t, s, "scope", "5/min")
		_, _ = l.Take(t.Context(), "k", 1) // it may use the connection that has just broken
		_, err := l.Take(t.Context(), "k", 1)
		if _, unsent := errors.AsType[*sluice.NotSentError](err); !unsent {
			t.Errorf("got %v, want a %T", err, &sluice.NotSentError{})
		}
		out := make([]sluice.Result, 3)
		reqs := make([]sluice.Request, len(out))
		for i := range reqs {
			reqs[i].Charge = l.Of(fmt.Sprint(i), 1)
		}
		if err := s.TakeBatch(t.Context(), reqs, out); err != nil {
			t.Fatal(err)
		}
		for _, r := range out {
			if _, unsent := errors.AsType[*sluice.NotSentError](r.Err); !unsent {
				t.Errorf("batch: got %v, want a %T", r.Err, &sluice.NotSentError{})
			}
		}
	}
	t.Run("server gone", func(t *testing.T) {
		server := redistest.Start(t, binary)
		client := testkit.Closed(t, newSingle(server.Addr))
		s := testkit.Closed(t, newStore(t, client, redisstore.Options{}))
		server.Kill(t)
		isUnsent(t, s)
	})
	t.Run("server of a Cluster gone", func(t *testing.T) {
		cluster := redistest.StartCluster(t, binary, 1, false)
		client := testkit.Closed(t, redis.NewClusterClient(clusterOptions(cluster)))
		s := testkit.Closed(t, newStore(t, client, redisstore.Options{}))
		cluster.Masters[0].Kill(t)
		isUnsent(t, s)
	})
	t.Run("client closed", func(t *testing.T) {
		client := newSingle(redistest.Start(t, binary).Addr)
		s := testkit.Closed(t, newStore(t, client, redisstore.Options{}))
		if err := client.Close(); err != nil {
			t.Fatal(err)
		}
		isUnsent(t, s)
	})
}

// TestNothingLeavesOnceConnected: if the time of a request ends while the client connects, the
// request is not sent on the new connection.
func TestNothingLeavesOnceConnected(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Redis(t))
	client := testkit.Closed(t, newSingle(server.Addr))
	s := testkit.Closed(t, newStore(t, client, redisstore.Options{Timeout: 200 * time.Millisecond, NoCoalescing: true}))
	patient := testkit.Closed(t, newStore(t, client, redisstore.Options{Timeout: testkit.Ceiling, NoCoalescing: true}))
	l := testkit.Limiter(t, s, "scope", "1000/h")
	if _, err := testkit.Limiter(t, patient, "scope", "1000/h").Take(t.Context(), "k", 1); err != nil {
		t.Fatal(err)
	}
	server.Stop(t)
	var group sync.WaitGroup
	var unsent, unknown atomic.Int64
	for range 20 { // there is one connection; the server does not answer on new ones
		group.Go(func() {
			_, err := l.Take(context.Background(), "k", 1)
			if _, ok := errors.AsType[*sluice.NotSentError](err); ok {
				unsent.Add(1)
			} else {
				unknown.Add(1)
			}
		})
	}
	group.Wait()
	server.Continue(t)
	testkit.Until(t, "the client to be idle", func() bool {
		all := client.PoolStats()
		return all.TotalConns == all.IdleConns && all.PipelineStats.TotalConns == all.PipelineStats.IdleConns
	})
	if got := testkit.Spent(t, patient, l.Plan(), "k"); got != 1+unknown.Load() || unsent.Load() == 0 {
		t.Errorf("%d units are spent, of 1 that was reported and %d of which nothing is known; %d were said not to be sent, want some", got, unknown.Load(), unsent.Load())
	}
}
