// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestReaderOfOutputLeaves: if the reader of standard output and error leaves, the program
// goes on, and logs elsewhere.
func TestReaderOfOutputLeaves(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "decisions")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := startProgramBy(t, func(c *exec.Cmd) { c.Stderr = w }, "--listen", "127.0.0.1:0", "--admin", "off", "--limit", "1000/min",
		"--decision-log", file, "--access-log", "stdout")
	for _, c := range []io.Closer{w, r, p.out} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	lines := func() int {
		text := testkit.ReadFile(t, file)
		return strings.Count(string(text), "\n")
	}
	for n := 1; n <= 3; n++ { // each logs a line without a reader
		servetest.Fetch(t, http.DefaultClient, p.url)
		testkit.Until(t, "the line", func() bool { return lines() == n })
		p.signal(t, syscall.SIGHUP) // of which it reports
	}
	p.signal(t, syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("ended with %v", err)
	}
}

// TestLogFormat: the program's own log is in JSON on request, faults of the configuration
// included, and leaves out lines below its level.
func TestLogFormat(t *testing.T) {
	t.Parallel()
	file := testkit.TempFile(t, "sluice.yaml", "rules:\n  - {nmae: a}\n  - {name: b, limit: 1/min}\n")
	_, stderr := command(t, cli.Failed, "serve", "--config", file, "--log-format", "json")
	n := 0
	for line := range strings.Lines(stderr) {
		var l struct {
			Level, Msg, File, Problem string
			Line, Column              int
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n++; l.Level != "ERROR" || l.Msg != "sluice does not start" || l.File != file || l.Line < 2 || l.Column < 5 || l.Problem == "" {
			t.Errorf("got %+v of %s", l, line)
		}
	}
	if n < 2 {
		t.Errorf("%d faults: %s", n, stderr)
	}
	for _, args := range [][]string{{"--log-format", "xml"}, {"--log-level", "loud"}} {
		failsWith(t, cli.Usage, args[0], append([]string{"serve"}, args...)...)
	}
}
