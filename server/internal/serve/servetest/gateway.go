// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package servetest starts gateways and their upstreams on real sockets for tests, and sends
// requests to both.
package servetest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
)

// quick are intervals for which a test need not wait.
var quick = serve.Intervals{
	File: 50 * time.Millisecond, Store: 50 * time.Millisecond, Memory: 50 * time.Millisecond, Heartbeat: 200 * time.Millisecond,
	Fleet: 100 * time.Millisecond, Report: 200 * time.Millisecond, Tick: 100 * time.Millisecond,
}

// Gateway is a gateway that serves on real sockets.
type Gateway struct {
	URL, Admin string
	URLs       []string // of all listeners
	Banner     string
	File       string         // of its configuration; empty: none
	Again      chan os.Signal // reloads the file
	Logs       *testkit.Buffer
	Ended      chan error // the result of [serve.Run]

	stop     context.CancelFunc // nil after Wait or End
	expected []string           // parts of error lines that may be logged
}

// Start serves a configuration, at free ports where it names none, with short intervals. Calls
// to a store whose URL has [redistest.Patient] do not time out. The functions in more change the
// options.
func Start(t testing.TB, yaml string, more ...func(*serve.Options)) *Gateway {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	(&Gateway{File: file}).Write(t, yaml)
	return StartFile(t, file, more...)
}

// StartFile serves a file.
func StartFile(t testing.TB, file string, more ...func(*serve.Options)) *Gateway {
	t.Helper()
	data, err := regular.ReadGiven(file, 32<<20)
	if err != nil {
		t.Fatal(err)
	}
	c, err := config.Parse(file, data)
	if err != nil {
		t.Fatal(err)
	}
	watch := func(o *serve.Options) { o.Watch = true }
	g := Serve(t, c, append([]func(*serve.Options){watch}, more...)...)
	g.File = file
	return g
}

// Serve serves a configuration that is not reloaded.
func Serve(t testing.TB, c *config.Config, more ...func(*serve.Options)) *Gateway {
	t.Helper()
	g := &Gateway{Logs: new(testkit.Buffer), Ended: make(chan error, 1), Again: make(chan os.Signal, 1)}
	out, in := io.Pipe()
	o := serve.Options{
		Config: c, Again: g.Again, Audit: filepath.Join(t.TempDir(), "audit.jsonl"), Drain: time.Minute,
		Out: in, Log: slog.New(slog.NewTextHandler(g.Logs, nil)), Intervals: quick,
	}
	for _, f := range more {
		f(&o)
	}
	if strings.Contains(c.Store.Redis, redistest.Patient) {
		o.Intervals.Call = testkit.Ceiling
	}
	var ctx context.Context
	ctx, g.stop = context.WithCancel(t.Context())
	go func() {
		err := serve.Run(ctx, o)
		g.Ended <- err
		// The reader of the banner must learn of an early end.
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
	}()
	lines := bufio.NewReader(out)
	for !announced(g.Banner) {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q; run: %v", err, g.Banner, <-g.Ended)
		}
		g.Banner += line
		if after, ok := strings.CutPrefix(line, "sluice: "); ok {
			url, _, _ := strings.Cut(after, " ")
			g.URLs = append(g.URLs, url)
		}
		if after, ok := strings.CutPrefix(line, "  admin  "); ok {
			g.Admin, _, _ = strings.Cut(after, "/metrics")
		}
	}
	g.URL = g.URLs[0]
	t.Cleanup(func() { g.End(t) })
	return g
}

// announced reports whether a banner is complete: with a page, it ends with the page's line.
func announced(banner string) bool {
	return strings.Contains(banner, "  config ") && strings.Contains(banner, "/policy;") == strings.Contains(banner, "  page ")
}

// Stop tells the gateway to end. [Gateway.End] waits for it.
func (g *Gateway) Stop() { g.stop() }

// Wait stops the gateway and returns its error. End then does nothing.
func (g *Gateway) Wait() error {
	g.stop()
	g.stop = nil
	return <-g.Ended
}

// End stops the gateway, once, and fails t if it returns an error or has logged unexpected
// errors.
func (g *Gateway) End(t testing.TB) {
	t.Helper()
	if g.stop == nil {
		return
	}
	if err := g.Wait(); err != nil {
		t.Errorf("run: %v", err)
	}
	for line := range strings.Lines(g.Logs.String()) {
		if strings.Contains(line, "level=ERROR") && !slices.ContainsFunc(g.expected, func(text string) bool { return strings.Contains(line, text) }) {
			t.Errorf("logged: %s", line)
		}
	}
}

// ExpectLog waits for a text in the log. End ignores errors with that text.
func (g *Gateway) ExpectLog(t testing.TB, text string) {
	t.Helper()
	testkit.Until(t, "the log to say "+text, func() bool { return strings.Contains(g.Logs.String(), text) })
	g.expected = append(g.expected, text)
}

// Write replaces the configuration's file, atomically. Missing addresses become free ones.
func (g *Gateway) Write(t testing.TB, yaml string) {
	t.Helper()
	for _, part := range []string{"listen", "admin"} {
		if !strings.Contains(yaml, part+":") {
			yaml = part + ": 127.0.0.1:0\n" + yaml
		}
	}
	Replace(t, g.File, yaml)
}

// Replace replaces a file that a gateway may read at any time, atomically: half of a file has
// faults, which the gateway logs.
func Replace(t testing.TB, name, text string) {
	t.Helper()
	next := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+".next")
	testkit.WriteFile(t, next, text)
	if err := os.Rename(next, name); err != nil {
		t.Fatal(err)
	}
}

// Change writes another configuration and waits for a text in /readyz.
func (g *Gateway) Change(t testing.TB, yaml, ready string) {
	t.Helper()
	g.Write(t, yaml)
	g.Again <- syscall.SIGHUP
	testkit.Until(t, "readyz to say "+ready, func() bool { return strings.Contains(Ready(t, g).Body, ready) })
}

// ChangeTo activates another configuration.
func (g *Gateway) ChangeTo(t testing.TB, yaml string) {
	t.Helper()
	before := g.Hash(t)
	g.Write(t, yaml)
	g.Again <- syscall.SIGHUP
	testkit.Until(t, "the configuration to be active", func() bool { return g.Hash(t) != before })
}

// Hash returns the active version.
func (g *Gateway) Hash(t testing.TB) string {
	t.Helper()
	_, after, _ := strings.Cut(Ready(t, g).Body, "version ")
	hash, _, _ := strings.Cut(after, ",")
	return hash
}

// UntilRefused dials until nobody listens any more.
func UntilRefused(t testing.TB, addr string) {
	t.Helper()
	testkit.Until(t, addr+" to be closed", func() bool {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return true
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil && !errors.Is(err, syscall.ECONNRESET) { // closed during the handshake
			t.Fatal(err)
		}
		return false
	})
}

// FixedClock stands still, in the middle of a minute.
func FixedClock() time.Time { return time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC) }

// Stopped makes a gateway's store use [FixedClock].
func Stopped(o *serve.Options) { o.Now = FixedClock }
