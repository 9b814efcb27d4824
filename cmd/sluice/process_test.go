// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/cli"
)

// holding is an upstream that answers on a signal.
type holding struct {
	url     string
	arrived chan struct{} // one for each request
	release chan struct{} // closed to answer all
}

func newHolding(t *testing.T) *holding {
	t.Helper()
	h := &holding{arrived: make(chan struct{}), release: make(chan struct{})}
	h.url = backend(t, func(w http.ResponseWriter, r *http.Request) {
		h.arrived <- struct{}{}
		select {
		case <-h.release:
		case <-r.Context().Done():
			return
		}
		if _, err := io.WriteString(w, "done"); err != nil {
			t.Error(err)
		}
	})
	return h
}

// untilRefused dials until nobody listens any more.
func untilRefused(t *testing.T, addr string) {
	t.Helper()
	for t.Context().Err() == nil {
		conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return
		}
		if err == nil {
			err = conn.Close()
		}
		if err != nil && !errors.Is(err, syscall.ECONNRESET) { // closed between its two ends' handshake
			t.Error(err)
			return
		}
	}
}

// program is sluice in a process of its own.
type program struct {
	*exec.Cmd
	url  string
	logs *syncBuffer
	out  io.Closer // the reader of its standard output
}

func startProgram(t *testing.T, args ...string) *program {
	t.Helper()
	return startProgramWith(t, append([]string{"--listen", "127.0.0.1:0", "--admin", "off"}, args...)...)
}

func startProgramWith(t *testing.T, args ...string) *program {
	t.Helper()
	return startProgramBy(t, func(*exec.Cmd) {}, args...)
}

// startProgramBy is startProgramWith of a command that is changed before.
func startProgramBy(t *testing.T, change func(*exec.Cmd), args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel) // kills what is left
	p := &program{Cmd: exec.CommandContext(ctx, self, append([]string{"serve"}, args...)...), logs: &syncBuffer{}}
	p.Env = append(os.Environ(), "SLUICE_TEST_AS_PROGRAM=1")
	p.Stderr = p.logs
	change(p.Cmd)
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = out
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("%v; logged %s", err, p.logs)
	}
	p.url, _, _ = strings.Cut(strings.TrimPrefix(line, "sluice: "), " ")
	return p
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestSignals: the first signal drains, the second ends the process at once.
func TestSignals(t *testing.T) {
	for _, c := range []struct {
		name   string
		signal syscall.Signal
	}{{"SIGTERM", syscall.SIGTERM}, {"SIGINT", syscall.SIGINT}} {
		t.Run(c.name, func(t *testing.T) {
			up := newHolding(t)
			p := startProgram(t, "--upstream", up.url, "--limit", "9/min")
			got := make(chan answer, 1)
			go func() { got <- fetch(t, http.DefaultClient, p.url) }()
			<-up.arrived
			p.signal(t, c.signal)
			untilRefused(t, strings.TrimPrefix(p.url, "http://"))
			close(up.release)
			if a := <-got; a.status != http.StatusOK || a.body != "done" {
				t.Errorf("answer %d %q", a.status, a.body)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("ended with %v; logged %s", err, p.logs)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		up := newHolding(t)
		p := startProgram(t, "--upstream", up.url, "--limit", "9/min")
		gone := make(chan error, 1)
		go func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url, nil)
			if err != nil {
				gone <- err
				return
			}
			resp, err := http.DefaultClient.Do(req)
			if err == nil {
				err = errors.Join(errors.New("answered"), resp.Body.Close())
			}
			gone <- err
		}()
		<-up.arrived
		p.signal(t, syscall.SIGTERM)
		untilRefused(t, strings.TrimPrefix(p.url, "http://"))
		p.signal(t, syscall.SIGTERM)
		err := p.Wait()
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
			t.Errorf("ended with %v; logged %s", err, p.logs)
		}
		if err := <-gone; !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the request: %v", err)
		}
	})
}

// TestHangUpSignal: SIGHUP has the program read its file, at once; it ends
// nothing.
func TestHangUpSignal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	write := func(limit string) {
		yaml := "listen: 127.0.0.1:0\nadmin: off\nrules: [{name: api, limits: " + limit + "}]\n"
		if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("1/day sliding-log")
	p := startProgramWith(t, "--config", file)
	ask := func() int { return fetch(t, http.DefaultClient, p.url+"/?userId=u").status }
	if a, b := ask(), ask(); a != 200 || b != 429 {
		t.Fatalf("got %d, %d", a, b)
	}
	for range 3 { // as it was: reported each time, unlike a change that is seen
		const reported = "the configuration has been read again"
		before := strings.Count(p.logs.String(), reported)
		p.signal(t, syscall.SIGHUP)
		until(t, "the signal to be heeded", func() bool { return strings.Count(p.logs.String(), reported) > before })
	}
	write("2/day sliding-log")
	p.signal(t, syscall.SIGHUP)
	until(t, "the change", func() bool { return ask() == 200 })
	p.signal(t, syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("ended with %v; logged %s", err, p.logs)
	}
}

// What another program writes into a pipe that is open already is read.
func TestConfigurationOnStandardInput(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"/dev/stdin", "/dev/fd/0"} {
		p := exec.CommandContext(t.Context(), self, "lint", name)
		p.Env = append(os.Environ(), "SLUICE_TEST_AS_PROGRAM=1")
		p.Stdin = strings.NewReader("rules: [{name: a, by: ip, limits: 5/min}]\n") // through a pipe
		if out, err := p.CombinedOutput(); err != nil || !strings.Contains(string(out), "5/min: at most 10 requests") {
			t.Errorf("%s: got %v\n%s", name, err, out)
		}
	}
}

// TestFaultsAtTheStart: what cannot run is refused, with what to write.
func TestFaultsAtTheStart(t *testing.T) {
	dir := t.TempDir()
	short := filepath.Join(dir, "short")
	if err := os.WriteFile(short, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	rule := "rules: [{name: a, by: ip, limits: 1/min}]\nadmin: off\nlisten: 127.0.0.1:0\n"
	for _, c := range []struct{ name, yaml, want string }{
		{"a fault", "rules: [{name: a, by: ip}]\n", "sluice.yaml:1:"},
		{"a certificate that is not there", strings.Replace(rule, "127.0.0.1:0", "{address: 127.0.0.1:0, tls: {cert: /none/c, key: /none/k}}", 1), "/none/c"},
		{"a secret that can be guessed", rule + fmt.Sprintf("tokens: {hmac_file: %q}\n", short), "can be guessed"},
		{"a token that can be guessed", strings.Replace(rule, "admin: off", fmt.Sprintf("admin: {address: 127.0.0.1:0, token_file: %q}", short), 1), "can be guessed"},
		{"an address that is taken", strings.Replace(rule, "127.0.0.1:0", "192.0.2.1:80", 1), "listen: listen tcp 192.0.2.1:80"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sluice.yaml")
			if err := os.WriteFile(file, []byte(c.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, stderr := command(t, cli.Failed, "serve", "--config", file); !strings.Contains(stderr, c.want) {
				t.Errorf("got %q, want %q", stderr, c.want)
			}
		})
	}
	_, stderr := command(t, cli.Usage, "serve", "--config", "x.yaml", "--limit", "1/s")
	if !strings.Contains(stderr, "--limit: does not go with --config") {
		t.Errorf("got %q", stderr)
	}
}

// pipe puts a pipe, whose opening waits for somebody to write, in the place of a
// file.
func pipe(t *testing.T, name string) {
	t.Helper()
	if err := os.RemoveAll(name); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestFilesInTwoPlaces: where overrides and audit go is in the file, or in a flag,
// but not in both.
func TestFilesInTwoPlaces(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q, audit_file: %q}\nrules: [{name: api, limits: 5/min}]\n", dir+"/o.json", dir+"/a.jsonl")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr := command(t, cli.Failed, "serve", "--config", file, "--overrides", dir+"/other.json", "--audit", dir+"/a.jsonl")
	if !strings.Contains(stderr, "--overrides "+dir+"/other.json") || strings.Contains(stderr, "--audit") {
		t.Errorf("got %q", stderr)
	}
}

// TestPipeInPlaceOfAFile: a pipe that nobody writes to, in the place of a file that
// is read, is reported at once.
func TestPipeInPlaceOfAFile(t *testing.T) {
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "sluice.yaml")
	pipe(t, fifo)
	if err := os.WriteFile(file, []byte("rules: [{name: a, by: ip, limits: 5/min}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"serve", "--config", fifo}, {"lint", fifo}, {"lint", "--test", fifo, file}} {
		if _, stderr := command(t, cli.Failed, args...); !strings.Contains(stderr, fifo+" is a pipe; use the path of a regular file") {
			t.Errorf("%v: got %q", args, stderr)
		}
	}
}
