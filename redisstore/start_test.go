// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// disconnected returns a limiter on a server that hangs, whose connection is
// lost, and what shows when the next one is started.
func disconnected(t *testing.T) (l *sluice.Limiter, started <-chan struct{}, release func()) {
	t.Helper()
	server := redistest.Start(t, redistest.Redis(t))
	option, dials := server.Option(), make(chan struct{}, 100)
	option.PipelineMultiplex = -1 // one connection
	option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		dials <- struct{}{}
		return conn, err
	}
	l = testkit.Limiter(t, open(t, option, redisstore.Options{Timeout: 30 * time.Second}), "scope", "1000/h")
	client := server.Client(t)
	for n := 0; ; n++ {
		if err := client.Do(t.Context(), client.B().ClientKill().TypeNormal().SkipmeYes().Build()).Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Take(context.Background(), "k", 1); err != nil {
			break
		}
		if n == 10 {
			t.Fatal("the connection is never lost")
		}
	}
	send := func(sig syscall.Signal) {
		if err := server.Process().Signal(sig); err != nil {
			t.Error(err)
		}
	}
	send(syscall.SIGSTOP)
	for len(dials) > 0 {
		<-dials
	}
	return l, dials, func() { send(syscall.SIGCONT) }
}

// TestImpatientCallersStartConnections: a caller whose deadline ends, or who goes
// away, while the connection is made leaves by itself. Those who wait for the
// same connection get it.
func TestImpatientCallersStartConnections(t *testing.T) {
	for _, c := range []struct {
		name string
		want error
		end  func(context.Context) (context.Context, context.CancelFunc)
	}{
		{"deadline", context.DeadlineExceeded, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 200*time.Millisecond)
		}},
		{"cancellation", context.Canceled, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(200*time.Millisecond, cancel)
			return ctx, cancel
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, started, release := disconnected(t)
			ctx, cancel := c.end(t.Context())
			defer cancel()
			impatient, patient := make(chan error, 1), make(chan error, 1)
			go func() {
				_, err := l.Take(ctx, "a", 1)
				impatient <- err
			}()
			select {
			case <-started:
			case err := <-impatient:
				t.Fatalf("no connection was started: %v", err)
			}
			go func() {
				_, err := l.Take(context.Background(), "b", 1)
				patient <- err
			}()
			if err := <-impatient; !errors.Is(err, c.want) {
				t.Errorf("a caller in a hurry: got %v, want %v", err, c.want)
			}
			release()
			if err := <-patient; err != nil {
				t.Errorf("another caller: got %v", err)
			}
		})
	}
}

// TestImpatientCallersLeaveConnectionsToOthers: nobody waits longer than his
// context for a connection that another makes, or for an answer.
func TestImpatientCallersLeaveConnectionsToOthers(t *testing.T) {
	l, started, release := disconnected(t)
	patient := make(chan error)
	go func() {
		_, err := l.Take(context.Background(), "a", 1)
		patient <- err
	}()
	<-started
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	gone, leave := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, leave)
	if _, err := l.Take(ctx, "b", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a caller in a hurry: got %v, want %v", err, context.DeadlineExceeded)
	}
	if _, err := l.Take(gone, "c", 1); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller who goes away: got %v, want %v", err, context.Canceled)
	}
	select {
	case err := <-patient:
		t.Errorf("the others' connection was not there yet, but a call ended: %v", err)
	default:
		release()
		if err := <-patient; err != nil {
			t.Errorf("who waits: got %v", err)
		}
	}
}

// TestCallersWhoGoAwayAreLet: a caller that goes away while an answer is awaited, alone on
// a connection, leaves at once.
func TestCallersWhoGoAwayAreLet(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: 30 * time.Second})
	l, client := testkit.Limiter(t, s, "scope", "1000/h"), server.Client(t)
	takes := []struct {
		name string
		do   func(context.Context) error
	}{
		{"take", func(ctx context.Context) error {
			_, err := l.Take(ctx, "k", 1)
			return err
		}},
		{"batch", func(ctx context.Context) error {
			out := make([]sluice.Result, 1)
			return errors.Join(s.TakeBatch(ctx, []sluice.Request{{Charge: l.Of("l", 1)}}, out), out[0].Err)
		}},
	}
	for _, take := range takes { // so that the server has the scripts, and a take is one call
		if err := take.do(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	release := holdUp(t, client)
	for _, take := range takes {
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- take.do(ctx) }()
		blocked(t, client, "1")
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", take.name, err, context.Canceled)
		}
		release()
		blocked(t, client, "0")
		release = holdUp(t, client)
	}
	release()
}
