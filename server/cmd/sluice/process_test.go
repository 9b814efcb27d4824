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

// program is sluice in a process of its own.
type program struct {
	*exec.Cmd
	url  string
	logs *testkit.Buffer
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

// startProgramBy is startProgramWith with a function that changes the command first.
func startProgramBy(t *testing.T, change func(*exec.Cmd), args ...string) *program {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel) // kills what is left
	p := &program{Cmd: exec.CommandContext(ctx, self, append([]string{"serve"}, args...)...), logs: new(testkit.Buffer)}
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

// end ends the program, which must exit without error.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if err := p.Wait(); err != nil {
		t.Errorf("ended with %v; logged %s", err, p.logs)
	}
}

func (p *program) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := p.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestSignals: the first signal drains, the second ends the process at once.
func TestSignals(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		signal syscall.Signal
	}{{"SIGTERM", syscall.SIGTERM}, {"SIGINT", syscall.SIGINT}} {
		t.Run(c.name, func(t *testing.T) {
			up := servetest.NewHolding(t)
			p := startProgram(t, "--upstream", up.URL, "--limit", "9/min")
			got := make(chan servetest.Answer, 1)
			go func() { got <- servetest.Fetch(t, http.DefaultClient, p.url) }()
			<-up.Arrived
			p.signal(t, c.signal)
			servetest.UntilRefused(t, strings.TrimPrefix(p.url, "http://"))
			close(up.Release)
			if a := <-got; a.Status != http.StatusOK || a.Body != "done" {
				t.Errorf("answer %d %q", a.Status, a.Body)
			}
			if err := p.Wait(); err != nil {
				t.Errorf("ended with %v; logged %s", err, p.logs)
			}
		})
	}
	t.Run("twice", func(t *testing.T) {
		up := servetest.NewHolding(t)
		p := startProgram(t, "--upstream", up.URL, "--limit", "9/min")
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
		<-up.Arrived
		p.signal(t, syscall.SIGTERM)
		servetest.UntilRefused(t, strings.TrimPrefix(p.url, "http://"))
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

// TestHangUpSignal: SIGHUP makes the program read its file at once, and ends nothing.
func TestHangUpSignal(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	write := func(limit string) {
		yaml := "listen: 127.0.0.1:0\nadmin: off\nrules: [{name: api, limits: " + limit + "}]\n"
		testkit.WriteFile(t, file, yaml)
	}
	write("1/day sliding-log")
	p := startProgramWith(t, "--config", file)
	ask := func() int { return servetest.Fetch(t, http.DefaultClient, p.url+"/?userId=u").Status }
	if a, b := ask(), ask(); a != 200 || b != 429 {
		t.Fatalf("got %d, %d", a, b)
	}
	for range 3 { // as it was: reported each time, unlike a change that is seen
		const reported = "the configuration has been read again"
		before := strings.Count(p.logs.String(), reported)
		p.signal(t, syscall.SIGHUP)
		testkit.Until(t, "the signal to be heeded", func() bool { return strings.Count(p.logs.String(), reported) > before })
	}
	write("2/day sliding-log")
	p.signal(t, syscall.SIGHUP)
	testkit.Until(t, "the change", func() bool { return ask() == 200 })
	p.end(t)
}

// TestHangUpSignalWithoutFile: if there is no file to read, the log says so, and the program
// goes on.
func TestHangUpSignalWithoutFile(t *testing.T) {
	t.Parallel()
	p := startProgramWith(t, "--listen", "127.0.0.1:0", "--admin", "off", "--limit", "1000/min")
	p.signal(t, syscall.SIGHUP)
	testkit.Until(t, "the log of SIGHUP", func() bool {
		return strings.Contains(p.logs.String(), "SIGHUP opens logs again and nothing else: a configuration that does not come from a file is read once")
	})
	if got := servetest.Fetch(t, http.DefaultClient, p.url+"/?userId=u").Status; got != 200 {
		t.Errorf("got %d behind it", got)
	}
	p.end(t)
}

// The program reads a file from a pipe that it got open.
func TestConfigurationOnStandardInput(t *testing.T) {
	t.Parallel()
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

// TestFilesInTwoPlaces: the files of overrides and of the audit log are named in the
// configuration or by a flag, but not by both.
func TestFilesInTwoPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "sluice.yaml")
	yaml := fmt.Sprintf("admin: {address: 127.0.0.1:0, overrides_file: %q, audit_file: %q}\nrules: [{name: api, limits: 5/min}]\n", dir+"/o.json", dir+"/a.jsonl")
	testkit.WriteFile(t, file, yaml)
	_, stderr := command(t, cli.Failed, "serve", "--config", file, "--overrides", dir+"/other.json", "--audit", dir+"/a.jsonl")
	if !strings.Contains(stderr, "--overrides "+dir+"/other.json") || strings.Contains(stderr, "--audit") {
		t.Errorf("got %q", stderr)
	}
}

// TestPipeInPlaceOfAFile: a pipe without a writer, in place of a file to read, is reported
// at once.
func TestPipeInPlaceOfAFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "sluice.yaml")
	servetest.Pipe(t, fifo)
	testkit.WriteFile(t, file, "rules: [{name: a, by: ip, limits: 5/min}]\n")
	for _, args := range [][]string{{"serve", "--config", fifo}, {"lint", fifo}, {"lint", "--test", fifo, file}} {
		failsWith(t, cli.Failed, fifo+" is a pipe; use the path of a regular file", args...)
	}
}
