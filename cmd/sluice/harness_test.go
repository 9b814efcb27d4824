// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestMain lets the test program be sluice itself, for the tests that need a
// process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_AS_PROGRAM") == "1" {
		main()
		return
	}
	os.Exit(m.Run())
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// running is a gateway that serves on real sockets.
type running struct {
	url, admin string
	banner     string
	logs       *syncBuffer
	stop       context.CancelFunc
	ended      chan error // what serve returned
}

// closeAtEnd closes c when the test is over.
func closeAtEnd(t *testing.T, c io.Closer) {
	t.Helper()
	t.Cleanup(func() {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}

// syncBuffer is a buffer that may be read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// start serves with these flags, on free ports.
func start(t *testing.T, args ...string) *running {
	t.Helper()
	return startAt(t, nil, args...)
}

// startAt is start with a clock for the store.
func startAt(t *testing.T, now func() time.Time, args ...string) *running {
	t.Helper()
	c, err := parseServe(append(args, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	c.now = now
	ctx, cancel := context.WithCancel(t.Context())
	r := &running{logs: &syncBuffer{}, stop: cancel, ended: make(chan error, 1)}
	out, in := io.Pipe()
	go func() {
		err := serve(ctx, c, in, slog.New(slog.NewTextHandler(r.logs, nil)))
		r.ended <- err
		// Whoever reads the banner must learn of an early end.
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
	}()
	lines := bufio.NewReader(out)
	for !strings.Contains(r.banner, "  try ") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q; serve: %v", err, r.banner, <-r.ended)
		}
		r.banner += line
		if after, ok := strings.CutPrefix(line, "sluice: "); ok {
			r.url, _, _ = strings.Cut(after, " ")
		}
		if after, ok := strings.CutPrefix(line, "  admin  "); ok {
			r.admin, _, _ = strings.Cut(after, "/metrics")
		}
	}
	t.Cleanup(func() { r.end(t) })
	return r
}

// end stops the gateway, once, and fails t if it does not end well.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := <-r.ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	for line := range strings.Lines(r.logs.String()) {
		if strings.Contains(line, "level=ERROR") {
			t.Errorf("logged: %s", line)
		}
	}
}

// answer is a response that was read to its end.
type answer struct {
	status int
	header http.Header
	body   string
}

// get asks for a path, over kept connections.
func (r *running) get(t *testing.T, path string, header ...string) answer {
	t.Helper()
	return fetch(t, http.DefaultClient, r.url+path, header...)
}

func fetch(t *testing.T, client *http.Client, url string, header ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return answer{}
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// metrics returns the series of the admin page with their values.
func (r *running) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	all := make(map[string]float64)
	for line := range strings.Lines(fetch(t, http.DefaultClient, r.admin+"/metrics").body) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		v, err := strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all[line[:i]] = v
	}
	return all
}

// fixedClock stands still, in the middle of a minute.
func fixedClock() time.Time { return time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC) }

// tickingClock advances by step at each look at it, from 3:04:10.
type tickingClock struct {
	step  time.Duration
	ticks atomic.Int64
}

func (c *tickingClock) now() time.Time {
	return time.Date(2026, 1, 2, 3, 4, 10, 0, time.UTC).Add(time.Duration(c.ticks.Add(1)) * c.step)
}

// backend returns the address of an upstream on a real socket.
func backend(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}
