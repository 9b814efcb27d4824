// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package h1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a connection in memory, whose time is virtual. What looks at it sees a file of
// which nothing can be read, or its end.
type piped struct {
	net.Conn
	closed atomic.Bool
	quiet  int // a file
	ended  atomic.Bool
}

func (c *piped) SyscallConn() (syscall.RawConn, error) { return raw{c}, nil }

func (c *piped) Close() error {
	c.closed.Store(true)
	return c.Conn.Close()
}

// raw is what a peek gets of a piped connection.
type raw struct{ *piped }

func (r raw) Control(func(uintptr)) error    { return nil }
func (r raw) Write(func(uintptr) bool) error { return nil }
func (r raw) Read(f func(uintptr) bool) error {
	if r.ended.Load() {
		return io.EOF
	}
	f(uintptr(r.quiet))
	return nil
}

// world is a transport with upstreams in memory.
type world struct {
	*Transport
	mu    sync.Mutex
	conns []*piped
	dials chan struct{} // nil: a dial takes no time
}

// newWorld has each connection served by f.
func newWorld(t *testing.T, serve func(c net.Conn)) *world {
	t.Helper()
	var files [2]int
	if err := syscall.Pipe(files[:]); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetNonblock(files[0], true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, fd := range files {
			if err := syscall.Close(fd); err != nil {
				t.Error(err)
			}
		}
	})
	w := &world{}
	w.Transport = New(Options{
		Upstream: &url.URL{Scheme: "http", Host: "up"}, DialTimeout: 5 * time.Second, ResponseTimeout: time.Minute, StallTimeout: time.Minute,
		MaxHeader: 1 << 10, Unsolicited: func([]byte) {}, MaxIdle: 2, IdleTimeout: 90 * time.Second,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if w.dials != nil {
				select {
				case <-w.dials:
				case <-ctx.Done():
					return nil, ctx.Err()
				}
			}
			ours, theirs := net.Pipe()
			c := &piped{Conn: ours, quiet: files[0]}
			w.mu.Lock()
			w.conns = append(w.conns, c)
			w.mu.Unlock()
			go func() {
				defer theirs.Close() //nolint:errcheck // a pipe
				serve(theirs)
			}()
			return c, nil
		},
	})
	return w
}

// answers serves requests, each after some time.
func answers(after time.Duration) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		for {
			if _, err := http.ReadRequest(in); err != nil {
				return
			}
			time.Sleep(after)
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil {
				return
			}
		}
	}
}

// get exchanges a request and reads the response.
func (w *world) get(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://up/", http.NoBody)
	if err != nil {
		return err
	}
	resp, err := w.RoundTrip(r)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && string(body) != "ok" {
		err = errors.New(string(body))
	}
	return errors.Join(err, resp.Body.Close())
}

// open returns how many connections are.
func (w *world) open() (n int) {
	for _, c := range w.conns {
		if !c.closed.Load() {
			n++
		}
	}
	return n
}

// TestResponseTimeout: each exchange has all of its time, also on a connection whose
// deadline was set by one before, and no more.
func TestResponseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answers(59*time.Second))
		for range 5 {
			if err := w.get(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if len(w.conns) != 1 {
			t.Errorf("%d connections", len(w.conns))
		}
		w.closeIdle()
	})
	synctest.Test(t, func(t *testing.T) {
		took := time.Second
		w := newWorld(t, func(c net.Conn) {
			in := bufio.NewReader(c)
			for _, err := http.ReadRequest(in); err == nil; _, err = http.ReadRequest(in) {
				time.Sleep(took)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // it may be too late
				took = 61 * time.Second
			}
		})
		if err := w.get(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		began := time.Now()
		var timeout net.Error
		if err := w.get(t.Context()); !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(began) != time.Minute {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if len(w.conns) != 1 || w.open() != 0 {
			t.Errorf("%d connections, %d of them open", len(w.conns), w.open())
		}
		time.Sleep(time.Minute) // for the upstream
	})
}

// TestHintsDoNotExtend: informational responses put nothing off.
func TestHintsDoNotExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
				return
			}
			for _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); err == nil; _, err = io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n") {
				time.Sleep(20 * time.Second)
			}
		})
		began := time.Now()
		if err := w.get(t.Context()); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
	})
}

// TestBodyTakesItsTime: once the header is there the upstream may be silent.
func TestBodyTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c net.Conn) {
			in := bufio.NewReader(c)
			for _, err := http.ReadRequest(in); err == nil; _, err = http.ReadRequest(in) {
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
				time.Sleep(time.Hour)
				_, _ = io.WriteString(c, "k")
			}
		})
		for range 2 {
			if err := w.get(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if len(w.conns) != 1 {
			t.Errorf("%d connections", len(w.conns))
		}
		w.closeIdle()
	})
}

// TestIdle: a connection is kept for its time, one that the upstream closed is
// closed within seconds, and there are so many and no more.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answers(time.Second))
		together := make(chan error, 3)
		for range 3 {
			go func() { together <- w.get(t.Context()) }()
		}
		for range 3 {
			if err := <-together; err != nil {
				t.Error(err)
			}
		}
		if len(w.conns) != 3 || w.open() != 2 {
			t.Fatalf("%d connections, %d of them are kept", len(w.conns), w.open())
		}
		time.Sleep(60 * time.Second)
		synctest.Wait()
		if w.open() != 2 {
			t.Errorf("%d are kept for a minute", w.open())
		}
		w.pool.mu.Lock()
		w.pool.idle[0].Conn.(*piped).ended.Store(true)
		w.pool.mu.Unlock()
		time.Sleep(sweepEvery)
		synctest.Wait()
		if w.open() != 1 {
			t.Errorf("%d are kept of which the upstream has closed one", w.open())
		}
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if w.open() != 0 || w.pool.sweeper != nil {
			t.Errorf("%d are kept for too long", w.open())
		}
	})
}

// TestAged: a connection that is too old is not used, whether it was closed or not.
func TestAged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answers(0))
		if err := w.get(t.Context()); err != nil {
			t.Error(err)
		}
		w.pool.mu.Lock()
		w.pool.sweeper.Stop()
		w.pool.mu.Unlock()
		time.Sleep(90 * time.Second)
		if err := w.get(t.Context()); err != nil || len(w.conns) != 2 || w.open() != 1 {
			t.Errorf("%v, %d connections, %d of them open", err, len(w.conns), w.open())
		}
		w.closeIdle()
	})
}

// TestCloseIdle: what is in use is closed when it is done, until there is a request again.
func TestCloseIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answers(time.Second))
		done := make(chan error)
		go func() { done <- w.get(t.Context()) }()
		synctest.Wait()
		w.closeIdle()
		if err := <-done; err != nil || w.open() != 0 {
			t.Errorf("%v, %d are open", err, w.open())
		}
		if err := w.get(t.Context()); err != nil || w.open() != 1 {
			t.Errorf("%v, %d are open", err, w.open())
		}
		w.closeIdle()
		if w.open() != 0 {
			t.Errorf("%d are open", w.open())
		}
	})
}

// TestDials: a request takes the connection that is there first, its own is kept for
// another, which is sent once more if that one is closed, and a dial takes its time and
// no more.
func TestDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened atomic.Int32
		w := newWorld(t, func(c net.Conn) {
			if opened.Add(1) == 2 {
				_, _ = http.ReadRequest(bufio.NewReader(c)) // and closes
				return
			}
			answers(time.Second)(c)
		})
		w.dials = make(chan struct{}, 1)
		w.dials <- struct{}{}
		done := make(chan error, 2)
		go func() { done <- w.get(t.Context()) }()
		synctest.Wait()
		go func() { done <- w.get(t.Context()) }()
		synctest.Wait()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(w.conns) != 1 {
			t.Errorf("%d connections", len(w.conns))
		}
		w.dials <- struct{}{}
		synctest.Wait()
		if len(w.pool.idle) != 2 {
			t.Errorf("%d connections are kept", len(w.pool.idle))
		}
		w.dials <- struct{}{}
		if err := w.get(t.Context()); err != nil || len(w.conns) != 3 {
			t.Errorf("error %v, %d connections", err, len(w.conns))
		}
		w.closeIdle()
		began := time.Now()
		if err := w.get(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("error %v after %v", err, time.Since(began))
		}
		if w.pool.waiters.Len() != 0 {
			t.Error("somebody waits")
		}
		left, leave := context.WithTimeout(t.Context(), time.Second)
		defer leave()
		if err := w.get(left); !errors.Is(err, context.DeadlineExceeded) || w.pool.waiters.Len() != 0 {
			t.Errorf("error %v, %d wait", err, w.pool.waiters.Len())
		}
	})
}

// TestSpareIsLookedAt: what another has done with is looked at like what was kept.
func TestSpareIsLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, answers(time.Second))
		w.dials = make(chan struct{}, 2)
		w.dials <- struct{}{}
		done := make(chan error, 2)
		for range 2 {
			go func() { done <- w.get(t.Context()) }()
		}
		synctest.Wait()
		w.conns[0].ended.Store(true)
		time.Sleep(2 * time.Second)
		w.dials <- struct{}{}
		w.dials <- struct{}{}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(w.conns) < 2 || !w.conns[0].closed.Load() {
			t.Errorf("%d connections", len(w.conns))
		}
		w.closeIdle()
	})
}
