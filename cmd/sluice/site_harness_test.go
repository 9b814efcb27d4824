// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// runningSite is serve --config on real sockets.
type runningSite struct {
	*running
	urls  []string // of all doors
	file  string
	hurry chan os.Signal
}

// startSite serves a configuration with doors at free ports. What stands in
// more goes before it, as the flags of serve --config.
func startSite(t *testing.T, yaml string, more ...func(*siteConfig)) *runningSite {
	t.Helper()
	s := &runningSite{
		running: &running{logs: &syncBuffer{}, ended: make(chan error, 1)},
		file:    filepath.Join(t.TempDir(), "sluice.yaml"), hurry: make(chan os.Signal, 1),
	}
	s.write(t, yaml)
	c := siteConfig{file: s.file, drain: 5 * time.Second, audit: filepath.Join(t.TempDir(), "audit.jsonl")}
	for _, f := range more {
		f(&c)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.stop = cancel
	out, in := io.Pipe()
	go func() {
		err := serveSite(ctx, c, s.hurry, in, slog.New(slog.NewTextHandler(s.logs, nil)))
		s.ended <- err
		// Whoever reads the banner must learn of an early end.
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
	}()
	lines := bufio.NewReader(out)
	for !strings.Contains(s.banner, "  config ") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("%v after %q; serve: %v", err, s.banner, <-s.ended)
		}
		s.banner += line
		if after, ok := strings.CutPrefix(line, "sluice: "); ok {
			url, _, _ := strings.Cut(after, " ")
			s.urls = append(s.urls, url)
		}
		if after, ok := strings.CutPrefix(line, "  admin  "); ok {
			s.admin, _, _ = strings.Cut(after, "/metrics")
		}
	}
	s.url = s.urls[0]
	t.Cleanup(func() { s.end(t) })
	return s
}

// write puts another file in the place of the configuration, whole. Addresses
// that it does not name are free ones.
func (s *runningSite) write(t *testing.T, yaml string) {
	t.Helper()
	for _, part := range []string{"listen", "admin"} {
		if !strings.Contains(yaml, part+":") {
			yaml = part + ": 127.0.0.1:0\n" + yaml
		}
	}
	next := s.file + ".next"
	if err := os.WriteFile(next, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, s.file); err != nil {
		t.Fatal(err)
	}
}

// change writes another configuration and waits until it was looked at: until
// the admin's page of what is ready has the text.
func (s *runningSite) change(t *testing.T, yaml, ready string) {
	t.Helper()
	s.write(t, yaml)
	s.hurry <- syscall.SIGHUP
	for {
		page := fetch(t, http.DefaultClient, s.admin+"/readyz")
		if strings.Contains(page.body, ready) {
			return
		}
		if t.Context().Err() != nil || t.Failed() {
			t.Fatalf("never ready: %q", page.body)
		}
	}
}

// hash returns the version in force.
func (s *runningSite) hash(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(fetch(t, http.DefaultClient, s.admin+"/readyz").body, "version ")
	hash, _, _ := strings.Cut(after, ",")
	return hash
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
