// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// folder is the folder of the built program.
var folder string

func TestMain(m *testing.M) {
	var err error
	if folder, err = os.MkdirTemp("", "sluice-attack-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(folder); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// program returns the path of sluice.
func program(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build builds the program, once.
var build = sync.OnceValues(func() (path string, err error) {
	if err := look(filepath.Join("..", "..", "..", "..")); err != nil {
		return "", err
	}
	path = filepath.Join(folder, "sluice")
	args := []string{"build", "-o", path}
	if testkit.Race() {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "github.com/sluicegate/sluice/server/cmd/sluice")...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	return path, nil
})

// look reads the program's source folders. The go command caches a test's result until a file
// changes that the test itself has read, from within a test.
func look(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && path != root && (d.Name()[0] == '.' || d.Name() == "bench" || d.Name() == "docs") {
			return filepath.SkipDir
		}
		return err
	})
}

// lines holds the output of a process.
type lines struct{ testkit.Buffer }

func (l *lines) count() int { return strings.Count(l.String(), "\n") }

// gate is a gateway in its own process.
type gate struct {
	cmd       *exec.Cmd
	addresses []string // of its listeners, in the order of the file
	admin     string
	file      string // of its configuration
	logs      *lines
	exited    chan struct{} // closed when the process is gone
	failed    error         // how it ended; valid once exited is closed
}

// start runs a gateway with a configuration until the test ends. It fails the test if the
// gateway ends earlier.
func start(t *testing.T, yaml string) *gate {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sluice.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	g := launch(t, file)
	t.Cleanup(func() {
		select {
		case <-g.exited:
			t.Errorf("the gateway ended: %v\n%s", g.failed, g.logs)
		default:
			g.kill(t)
		}
	})
	return g
}

// behind runs an upstream, and before it a gateway that is behind a proxy. The format makes
// the rest of the configuration.
func behind(t *testing.T, format string, args ...any) (*gate, *upstream) {
	t.Helper()
	u := newUpstream(t)
	return start(t, fmt.Sprintf("listen: {address: \"127.0.0.1:0\", proxy_protocol: 127.0.0.0/8}\nadmin: 127.0.0.1:0\nupstream: %s\n", u.url())+fmt.Sprintf(format, args...)), u
}

// launch runs a gateway with the configuration in a file.
func launch(t *testing.T, file string) *gate {
	t.Helper()
	g := &gate{file: file, logs: &lines{}, exited: make(chan struct{})}
	g.cmd = exec.Command(program(t), "serve", "--config", file)
	g.cmd.Stderr = g.logs
	from, to := io.Pipe()
	g.cmd.Stdout = to
	if err := g.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		g.failed = g.cmd.Wait()
		_ = to.Close() // never fails
		close(g.exited)
	}()
	banner := bufio.NewReader(from)
	for line := ""; !strings.HasPrefix(line, "  config "); {
		var err error
		if line, err = banner.ReadString('\n'); err != nil {
			<-g.exited
			t.Fatalf("the gateway did not start: %v\n%s", g.failed, g.logs)
		}
		if after, ok := strings.CutPrefix(line, "sluice: "); ok {
			url, _, _ := strings.Cut(after, " ")
			_, address, _ := strings.Cut(url, "://")
			g.addresses = append(g.addresses, address)
		}
		if after, ok := strings.CutPrefix(line, "  admin  http://"); ok {
			g.admin, _, _ = strings.Cut(after, "/")
		}
	}
	go func() { _, _ = io.Copy(io.Discard, banner) }() // ends with the process
	return g
}

// signal sends a signal to the process.
func (g *gate) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := g.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Error(err)
	}
}

// kill ends the process at once.
func (g *gate) kill(t *testing.T) {
	t.Helper()
	g.signal(t, syscall.SIGKILL)
	<-g.exited
	g.sane(t)
}

// sane fails the test if the process has reported a race or a panic.
func (g *gate) sane(t *testing.T) {
	t.Helper()
	for _, word := range []string{"DATA RACE", "panic", "fatal error"} {
		if logs := g.logs.String(); strings.Contains(logs, word) {
			t.Errorf("%s in %s", word, logs)
		}
	}
}
