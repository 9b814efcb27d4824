// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/testkit"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// running is a gateway that serves on real sockets.
type running struct {
	url, admin string
	urls       []string // of all listeners
	banner     string
	file       string
	again      chan os.Signal
	logs       *syncBuffer
	stop       context.CancelFunc
	ended      chan error // what Run returned
}

// start serves a configuration at free ports. What stands in more changes how.
func start(t *testing.T, yaml string, more ...func(*Options)) *running {
	t.Helper()
	s := &running{
		logs: &syncBuffer{}, ended: make(chan error, 1), again: make(chan os.Signal, 1),
		file: filepath.Join(t.TempDir(), "sluice.yaml"),
	}
	s.write(t, yaml)
	return s.serve(t, s.file, more...)
}

// serve starts what a file says.
func (r *running) serve(t *testing.T, file string, more ...func(*Options)) *running {
	t.Helper()
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	o := Options{
		Config: c, Watch: true, Again: r.again, Audit: filepath.Join(t.TempDir(), "audit.jsonl"),
		Drain: 5 * time.Second, Out: in, Log: slog.New(slog.NewTextHandler(r.logs, nil)),
	}
	for _, f := range more {
		f(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		err := Run(ctx, o)
		r.ended <- err
		// The reader of the banner must learn of an early end.
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
	}()
	lines := bufio.NewReader(out)
	for !announced(r.banner) {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q; run: %v", err, r.banner, <-r.ended)
		}
		r.banner += line
		if after, ok := strings.CutPrefix(line, "sluice: "); ok {
			url, _, _ := strings.Cut(after, " ")
			r.urls = append(r.urls, url)
		}
		if after, ok := strings.CutPrefix(line, "  admin  "); ok {
			r.admin, _, _ = strings.Cut(after, "/metrics")
		}
	}
	r.url = r.urls[0]
	t.Cleanup(func() { r.end(t) })
	return r
}

// announced reports whether a banner is there in whole: where there is a page, it
// ends with that.
func announced(banner string) bool {
	return strings.Contains(banner, "  config ") && strings.Contains(banner, "/policy;") == strings.Contains(banner, "  page ")
}

// write puts another file in the place of the configuration, whole. Addresses
// that it does not name are free ones.
func (r *running) write(t *testing.T, yaml string) {
	t.Helper()
	for _, part := range []string{"listen", "admin"} {
		if !strings.Contains(yaml, part+":") {
			yaml = part + ": 127.0.0.1:0\n" + yaml
		}
	}
	next := r.file + ".next"
	if err := os.WriteFile(next, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, r.file); err != nil {
		t.Fatal(err)
	}
}

// change writes another configuration and waits until it was looked at: until
// the admin's page of what is ready has the text.
func (r *running) change(t *testing.T, yaml, ready string) {
	t.Helper()
	r.write(t, yaml)
	r.again <- syscall.SIGHUP
	until(t, "readyz to say "+ready, func() bool {
		return strings.Contains(fetch(t, http.DefaultClient, r.admin+"/readyz").body, ready)
	})
}

// hash returns the active version.
func (r *running) hash(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(fetch(t, http.DefaultClient, r.admin+"/readyz").body, "version ")
	hash, _, _ := strings.Cut(after, ",")
	return hash
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

// end stops the gateway, once, and fails t if it does not end well.
func (r *running) end(t *testing.T) {
	t.Helper()
	if r.stop == nil {
		return
	}
	r.stop()
	r.stop = nil
	if err := <-r.ended; err != nil {
		t.Errorf("run: %v", err)
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

// ask sends a document to the admin's API and returns the answer.
func (r *running) ask(t *testing.T, method, path, document string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.admin+path, strings.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(body)}
}

// override gives a key another limit.
func (r *running) override(t *testing.T, rule, part, value, limit string) {
	t.Helper()
	a := r.ask(t, http.MethodPut, "/v1/override", fmt.Sprintf(`{"rule": %q, "parts": {%q: %q}, "limits": [%q], "reason": "x", "author": "eve"}`, rule, part, value, limit))
	if a.status != http.StatusOK {
		t.Fatalf("override: %d %s", a.status, a.body)
	}
}

// metrics returns the series of the admin page with their values.
func (r *running) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	return testkit.Metrics(t, fetch(t, http.DefaultClient, r.admin+"/metrics").body)
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

// until asks again and again until is says that it is so.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); !is(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("wait for %s: in vain", what)
		}
	}
}

func ready(t *testing.T, r *running) answer {
	t.Helper()
	return fetch(t, http.DefaultClient, r.admin+"/readyz")
}
