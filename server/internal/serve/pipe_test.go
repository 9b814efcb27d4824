// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestPipe: a pipe in place of a configuration, or of a file named in it, is reported, and
// delays neither the next configuration nor the stop.
func TestPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	secret := filepath.Join(dir, "secret")
	for _, name := range []string{token, secret} {
		testkit.WriteFile(t, name, "0123456789abcdef0123456789abcdef")
	}
	yaml := fmt.Sprintf(`
store: {memory: {state: %q}}
admin: {address: 127.0.0.1:0, token_file: %q}
tokens: {hmac_file: %q}
rules: [{name: a, limits: 1000/min}]
`, filepath.Join(dir, "state"), token, secret)
	s := servetest.Start(t, yaml)
	s.Get(t, "/")
	for _, name := range []string{token, secret, s.File} {
		servetest.Pipe(t, name)
		testkit.Until(t, "the fault to be reported", func() bool {
			return strings.Contains(servetest.Ready(t, s).Body, name+" is a pipe") &&
				strings.Contains(s.Logs.String(), name+" is a pipe") // a moment later
		})
		if name != s.File {
			servetest.Replace(t, name, "0123456789abcdef0123456789abcdef")
		}
	}
	s.Again <- syscall.SIGHUP
	s.ExpectLog(t, "is a pipe")
	s.End(t)
	if _, err := os.Stat(filepath.Join(dir, "state")); err != nil {
		t.Error(err)
	}
}

// TestStopsBesideAReload: a configuration whose activation hangs delays the stop by a second
// at most, and the state is still saved.
func TestStopsBesideAReload(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	var stuck atomic.Bool
	asked, goOn := make(chan struct{}), make(chan struct{})
	defer close(goOn)
	s := servetest.Start(t, fmt.Sprintf("admin: off\nstore: {memory: {state: %q}}\nrules: [{name: a, limits: 1000/min}]\n", state), func(o *serve.Options) {
		o.Intervals.Tick = time.Hour // it would call the clock, too
		o.Now = func() time.Time {
			if stuck.CompareAndSwap(true, false) { // no request comes: the reload calls the clock
				close(asked)
				<-goOn
			}
			return servetest.FixedClock()
		}
	})
	s.Get(t, "/")
	stuck.Store(true)
	s.Write(t, "admin: off\nrules: [{name: a, limits: 2000/min}]\n")
	s.Again <- syscall.SIGHUP
	<-asked
	s.End(t)
	testkit.Contains(t, s.Logs.String(), "ends while a configuration is being read")
	if _, err := os.Stat(state); err != nil {
		t.Error(err)
	}
}

// TestPipeAtTheStart: a pipe without a writer, in place of a file read at the start, is
// reported at once.
func TestPipeAtTheStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	servetest.Pipe(t, fifo)
	file := filepath.Join(dir, "sluice.yaml")
	const want = " is a pipe; use the path of a regular file"
	for _, c := range []struct{ name, yaml string }{
		{"password_file", "store: {redis: {url: \"redis://127.0.0.1:1?password_file=%s\"}}"},
		{"secret_file", "store: {redis: {url: \"redis://127.0.0.1:1?secret_file=%s\"}}"},
		{"ca_file", "store: {redis: {url: \"rediss://127.0.0.1:1?ca_file=%s\"}}"},
		{"cert_file", "store: {redis: {url: \"rediss://127.0.0.1:1?key_file=/dev/null&cert_file=%s\"}}"},
		{"key_file", "store: {redis: {url: \"rediss://127.0.0.1:1?cert_file=" + file + "&key_file=%s\"}}"},
		{"audit_file", "admin: {address: 127.0.0.1:0, audit_file: %q}"},
		{"overrides_file", "admin: {address: 127.0.0.1:0, overrides_file: %q}"},
		{"state", "store: {memory: {state: %q}}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			yaml := fmt.Sprintf(c.yaml, fifo) + "\nlisten: 127.0.0.1:0\nrules: [{name: a, by: ip, limits: 5/min}]\n"
			testkit.WriteFile(t, file, yaml)
			conf, err := config.Load(file)
			if err == nil {
				err = serve.CheckFiles(conf)
			}
			if err == nil {
				err = serve.Run(t.Context(), serve.Options{Config: conf, Out: io.Discard, Log: slog.New(slog.DiscardHandler)})
			}
			if err == nil || !strings.Contains(err.Error(), fifo+want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

// TestConfigurationThatIsReadOnce: a configuration from a pipe is read once, and never again,
// also on SIGHUP.
func TestConfigurationThatIsReadOnce(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, out)
	yaml := "listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nrules: [{name: a, by: ip, limits: 5/min}]\n"
	if _, err := in.WriteString(yaml); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	s := servetest.StartFile(t, fmt.Sprintf("/dev/fd/%d", out.Fd()))
	if !strings.Contains(s.Banner, "; a change needs a restart\n") || strings.Contains(s.Banner, "within a second") {
		t.Errorf("got %s", s.Banner)
	}
	s.Again <- syscall.SIGHUP
	testkit.Until(t, "the log of SIGHUP", func() bool { return strings.Contains(s.Logs.String(), "SIGHUP") })
	if got := servetest.Ready(t, s); got.Status != http.StatusOK || strings.Contains(got.Body, "stays active") {
		t.Errorf("got %d %s", got.Status, got.Body)
	}
}

// TestAuditOnStandardOutput: the audit log may be any file descriptor passed to the program.
func TestAuditOnStandardOutput(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	testkit.Closed(t, out)
	testkit.Closed(t, in)
	file := fmt.Sprintf("/dev/fd/%d", in.Fd())
	s := servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, audit_file: %q}\nrules: [{name: a, by: ip, limits: 5/min}]\n", file),
		func(o *serve.Options) { o.Audit = "" })
	s.Ask(t, http.MethodPost, "/v1/key/reset", `{"parts": {"ip": "127.0.0.1"}, "reason": "x", "author": "eve"}`)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || !strings.Contains(line, `"action":"reset"`) {
		t.Errorf("got %q, %v", line, err)
	}
}
