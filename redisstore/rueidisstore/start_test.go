// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// disconnected returns a limiter that has lost its connection to a server that hangs, and a
// channel that closes when the next connection is started.
func disconnected(t *testing.T) (l *sluice.Limiter, started <-chan struct{}, release func()) {
	t.Helper()
	server := redistest.Start(t, redistest.Redis(t))
	dials := make(chan struct{}, 100)
	l = testkit.Limiter(t, newStore(t, connect(t, "redis://"+server.Addr, func(o *rueidis.ClientOption) {
		o.PipelineMultiplex = -1 // one connection
		o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := d.DialContext(ctx, "tcp", addr)
			dials <- struct{}{}
			return conn, err
		}
	})), "scope", "1000/h")
	client := server.Client(t)
	testkit.Until(t, "a lost connection", func() bool {
		redistest.Do(t, client, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		_, err := l.Take(context.Background(), "k", 1)
		return err != nil
	})
	server.Stop(t)
	for len(dials) > 0 {
		<-dials
	}
	return l, dials, func() { server.Continue(t) }
}

// TestImpatientCallersWaitForNoConnection: a caller whose deadline ends, or that leaves, while
// the client connects, returns at once, whether it has started the connection or not. Other
// callers that wait for the same connection get it.
func TestImpatientCallersWaitForNoConnection(t *testing.T) {
	for _, first := range []string{"deadline", "cancellation", "patient"} {
		t.Run(first, func(t *testing.T) {
			l, started, release := disconnected(t)
			take := func(ctx context.Context, key string) <-chan error {
				result := make(chan error, 1)
				go func() {
					_, err := l.Take(ctx, key, 1)
					result <- err
				}()
				return result
			}
			cancelled, cancel := context.WithCancel(t.Context())
			within := 50 * time.Millisecond
			calls := map[string]func() <-chan error{
				"deadline": func() <-chan error {
					ctx, end := context.WithTimeout(t.Context(), within)
					t.Cleanup(end)
					return take(ctx, "a")
				},
				"cancellation": func() <-chan error { return take(cancelled, "b") },
				"patient":      func() <-chan error { return take(context.Background(), "c") },
			}
			results := make(map[string]<-chan error)
			for results[first] == nil {
				results[first] = calls[first]()
				select {
				case <-started:
				case err := <-results[first]:
					if within *= 4; first != "deadline" || within > testkit.Ceiling {
						t.Fatalf("no connection was started: %v", err)
					}
					results[first] = nil
				}
			}
			for name, call := range calls {
				if name != first {
					results[name] = call()
				}
			}
			if err := <-results["deadline"]; !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a caller in a hurry: got %v, want %v", err, context.DeadlineExceeded)
			}
			cancel()
			if err := <-results["cancellation"]; !errors.Is(err, context.Canceled) {
				t.Errorf("a caller who goes away: got %v, want %v", err, context.Canceled)
			}
			select {
			case err := <-results["patient"]:
				t.Errorf("the connection was not there yet, but a call ended: %v", err)
			default:
				release()
				if err := <-results["patient"]; err != nil {
					t.Errorf("who waits: got %v", err)
				}
			}
		})
	}
}
