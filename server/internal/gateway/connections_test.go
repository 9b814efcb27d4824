// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/server/internal/gateway"
)

// TestConnections: the number of connections is bounded, each counts until it is closed, and a
// failed one takes no place.
func TestConnections(t *testing.T) {
	up := strings.TrimPrefix(serve(t, http.NotFoundHandler()), "http://")
	rooms := 0
	var idle net.Conn
	c := gateway.NewConnections(2, func() {
		rooms++
		if idle != nil {
			check(t, idle.Close())
		}
	})
	dial := func(to string) net.Conn {
		t.Helper()
		conn, err := c.Dial(t.Context(), "tcp", to)
		if err != nil {
			return nil
		}
		t.Cleanup(func() { _ = conn.Close() }) // it may be closed already
		return conn
	}
	stats := func(open, full int64) {
		t.Helper()
		if got := c.Stats(); got != (gateway.ConnectionStats{Open: open, Full: full}) {
			t.Errorf("got %+v, want %d open and %d refused", got, open, full)
		}
	}
	if dial(nobody) != nil {
		t.Error("reached nobody")
	}
	stats(0, 0)
	first, second := dial(up), dial(up)
	if first == nil || second == nil || dial(up) != nil || rooms != 1 {
		t.Errorf("got %v, %v and one more, made room %d times", first, second, rooms)
	}
	stats(2, 1)
	check(t, first.Close())
	_ = first.Close() // frees no second place
	stats(1, 1)
	idle = second
	for range 2 {
		if dial(up) == nil {
			t.Error("no connection, though there is room, or could be made")
		}
	}
	stats(2, 1)
	c.Resize(1)
	idle = nil
	if dial(up) != nil {
		t.Error("one more than there may be now")
	}
	stats(2, 2)
}

// TestRoomForAll: while one dial closes idle connections, other dials wait for it instead of
// failing.
func TestRoomForAll(t *testing.T) {
	up := strings.TrimPrefix(serve(t, http.NotFoundHandler()), "http://")
	var idle []net.Conn
	closing, closed := make(chan struct{}), make(chan struct{})
	var taken atomic.Bool
	c := gateway.NewConnections(2, func() {
		if taken.Swap(true) { // as CloseIdleConnections: the first caller closes all, the next finds none
			return
		}
		close(closing)
		<-closed
		for _, conn := range idle {
			check(t, conn.Close())
		}
	})
	for range 2 {
		conn, err := c.Dial(t.Context(), "tcp", up)
		if err != nil {
			t.Fatal(err)
		}
		idle = append(idle, conn)
	}
	errs := make(chan error)
	dial := func() {
		conn, err := c.Dial(t.Context(), "tcp", up)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
		}
		errs <- err
	}
	go dial()
	<-closing
	go dial()
	select {
	case err := <-errs:
		t.Fatalf("got %v while idle connections were being closed", err)
	case <-time.After(20 * time.Millisecond): // a second dial that does not wait fails within it
	}
	close(closed)
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// TestNothingToDialWith: if a connection lacks a local resource, the answer says so, and the
// log names the setting to raise.
func TestNothingToDialWith(t *testing.T) {
	full := gateway.NewConnections(1, nil)
	held, err := full.Dial(t.Context(), "tcp", strings.TrimPrefix(serve(t, http.NotFoundHandler()), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	closeAtEnd(t, held)
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("192.0.2.1")}} // no address of this machine
	socket := func(no syscall.Errno) func(context.Context, string, string) (net.Conn, error) {
		return func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", no)}
		}
	}
	for _, c := range []struct {
		name, reported string
		dial           func(context.Context, string, string) (net.Conn, error)
	}{
		{"no place", "as many are open", full.Dial},
		{"no descriptor of the process", "raise ulimit -n", socket(syscall.EMFILE)},
		{"no descriptor of the system", "raise fs.file-max", socket(syscall.ENFILE)},
		{"no port", "ip_local_port_range", elsewhere.DialContext},
		{"no descriptor to look the host up", "raise ulimit -n", func(context.Context, string, string) (net.Conn, error) {
			// Package net keeps only this text of the cause.
			lookup := &net.DNSError{Err: "dial udp 192.0.2.53:53: socket: " + syscall.EMFILE.Error(), Name: "up.example"}
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: lookup}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			g, err := gateway.New("http://127.0.0.1:9", gateway.Options{Dial: c.dial, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			got := do(t, http.MethodPost, serve(t, gateway.WithDeadlines(watched(t, g), patience)), strings.NewReader("x"))
			if got.header.Get("Retry-After") == "" {
				t.Error("it is not said when to come again")
			}
			text, err := io.ReadAll(got.body)
			if err != nil || !strings.Contains(string(text), "no connections left for the upstream; the request was not sent") {
				t.Errorf("got %q, %v", text, err)
			}
			got.body.Reset(bytes.NewReader(text))
			wantProblem(t, got, http.StatusServiceUnavailable)
			if !strings.Contains(log.String(), c.reported) {
				t.Errorf("the log says %q, and not %q", log.String(), c.reported)
			}
		})
	}
	if _, err := elsewhere.DialContext(t.Context(), "tcp", "127.0.0.1:9"); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("the cause is %v, which proves nothing", err)
	}
}
