// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"
	_ "time/tzdata" // zones of calendar windows

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/storetest"
)

// open returns a store over a client of its own, both closed when the test ends.
func open(t *testing.T, at clienttest.Servers, options redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(redisstore.Over(at.Connect(t)), options)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// conform runs the suite. Each part has an empty store under a prefix of its own.
func conform(t *testing.T, at clienttest.Servers, options redisstore.Options, all ...*redistest.Server) {
	t.Helper()
	storetest.Test(t, func(t *testing.T, _ func() time.Time) storetest.Harness {
		options.Prefix = t.Name()
		options.Timeout = testkit.Ceiling // other tests keep the machine busy
		s := open(t, at, options)
		h := storetest.Harness{Store: s, Slots: s, OwnClock: true, Steps: testkit.Steps(1000, 3000), Stall: func(t *testing.T) func() {
			t.Helper()
			return redistest.HoldUp(t, all...)
		}}
		if len(all) > 1 {
			h.Together = 500 * time.Millisecond // beyond that each server may decide at an instant of its own
		}
		return h
	})
}

// TestExampleClient: a store over the example's Client decides like any other.
func TestExampleClient(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, conn)
	s, err := redisstore.New(newConnClient(conn), redisstore.Options{Timeout: testkit.Ceiling})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, s)
	for _, text := range []string{"2/day", "2/day sliding-log", "2/366day sliding-counter", "2/day sliding-histogram"} {
		l := testkit.Limiter(t, s, "scope", text)
		for i, want := range []bool{true, true, false} {
			if d, err := l.Take(t.Context(), "k", 1); err != nil || d.Allowed != want {
				t.Errorf("%s: take %d: got %+v, %v, want allowed %t", text, i+1, d, err, want)
			}
		}
	}
}

// TestExampleClientLeaves: a call of the example's Client that waits for the connection ends with
// its context, and has sent nothing.
func TestExampleClientLeaves(t *testing.T) {
	conn, hung := net.Pipe()
	client := newConnClient(conn)
	first := clienttest.Line(1, func(int) {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Ceiling)
		defer cancel()
		if _, err := client.Info(ctx); err == nil {
			t.Error("a server that hangs has answered")
		}
	})
	if _, err := hung.Read(make([]byte, 1)); err != nil { // the first call uses the connection
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := client.Info(ctx)
	if _, unsent := errors.AsType[*sluice.NotSentError](err); !unsent || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want a NotSentError of %v", err, context.DeadlineExceeded)
	}
	if err := errors.Join(hung.Close(), conn.Close()); err != nil {
		t.Error(err)
	}
	first()
}

func TestConformance(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			t.Run("single", func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t, b)
				conform(t, server, redisstore.Options{}, server)
			})
			t.Run("cluster", func(t *testing.T) {
				testkit.Long(t)
				t.Parallel()
				cluster := redistest.StartCluster(t, b, 3, false)
				conform(t, cluster, redisstore.Options{Secret: []byte("a secret of sixteen")}, cluster.Masters...)
			})
		})
	}
}
