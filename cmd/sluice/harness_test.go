// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/cli"
	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/serve"
	"github.com/sluicegate/sluice/internal/testkit"
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

// running is a gateway that serves on real sockets.
type running struct {
	url, admin string
	banner     string
	file       string // of its configuration; empty: flags
	logs       *syncBuffer
	stop       context.CancelFunc
	ended      chan error // what serve.Run returned
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

// starts runs a test of gateways that serve what flags say: one that is given
// the flags, and one the file that says the same.
func starts(t *testing.T, now func() time.Time, args []string, test func(t *testing.T, r *running)) {
	t.Helper()
	args = append(slices.Clone(args), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
	clock := func(o *serve.Options) { o.Now = now }
	t.Run("flags", func(t *testing.T) {
		_, c, err := parseArgs(args)
		if err != nil {
			t.Fatal(err)
		}
		test(t, serveConfig(t, c, clock))
	})
	t.Run("file", func(t *testing.T) {
		yaml, _ := command(t, cli.OK, append([]string{"serve", "--print-config"}, args...)...)
		test(t, startFile(t, yaml, clock))
	})
}

// startFile serves a file, on free ports if it names none. What stands in more
// changes how.
func startFile(t *testing.T, yaml string, more ...func(*serve.Options)) *running {
	t.Helper()
	for _, part := range []string{"listen", "admin"} {
		if !strings.Contains(yaml, part+":") {
			yaml = part + ": 127.0.0.1:0\n" + yaml
		}
	}
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	r := serveConfig(t, c, more...)
	r.file = file
	return r
}

func serveConfig(t *testing.T, c *config.Config, more ...func(*serve.Options)) *running {
	t.Helper()
	r := &running{logs: &syncBuffer{}, ended: make(chan error, 1)}
	out, in := io.Pipe()
	o := serve.Options{
		Config: c, Drain: 5 * time.Second, Audit: filepath.Join(t.TempDir(), "audit.jsonl"),
		Out: in, Log: slog.New(slog.NewTextHandler(r.logs, nil)),
	}
	for _, f := range more {
		f(&o)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() {
		err := serve.Run(ctx, o)
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
		if after, ok := strings.CutPrefix(line, "sluice: "); ok && r.url == "" {
			r.url, _, _ = strings.Cut(after, " ")
		}
		if after, ok := strings.CutPrefix(line, "  admin  "); ok {
			r.admin, _, _ = strings.Cut(after, "/metrics")
		}
	}
	t.Cleanup(func() { r.end(t) })
	return r
}

// announced reports whether a banner is there in whole: where there is a page, it
// ends with that.
func announced(banner string) bool {
	return strings.Contains(banner, "  config ") && strings.Contains(banner, "/policy;") == strings.Contains(banner, "  page ")
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

// metrics returns the series of the admin page with their values.
func (r *running) metrics(t *testing.T) map[string]float64 {
	t.Helper()
	return testkit.Metrics(t, fetch(t, http.DefaultClient, r.admin+"/metrics").body)
}

// fixedClock stands still, in the middle of a minute.
func fixedClock() time.Time { return time.Date(2026, 1, 2, 3, 4, 30, 0, time.UTC) }

func stopped(o *serve.Options) { o.Now = fixedClock }

// backend returns the address of an upstream on a real socket.
func backend(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// command runs a command of sluice and returns what it writes.
func command(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, failed bytes.Buffer
	if got := run(t.Context(), args, &out, &failed); got != want {
		t.Fatalf("sluice %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, want, out.String(), failed.String())
	}
	return out.String(), failed.String()
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

// named returns an upstream that answers with a name and the path it got.
func named(t *testing.T) string {
	t.Helper()
	return backend(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil {
			return // the gateway answers
		}
		if _, err := fmt.Fprintf(w, "up %s %d", r.URL.Path, n); err != nil {
			t.Error(err)
		}
	})
}
