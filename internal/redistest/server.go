// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// Binary is a server program that tests can start.
type Binary struct {
	Name string // "redis" or "valkey"
	Path string
}

// Redis returns the redis-server on the PATH. A test that has none fails.
func Redis(t testing.TB) Binary {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Fatal("redis-server is not on the PATH; install it with: apt-get install redis-server")
	}
	return Binary{Name: "redis", Path: path}
}

// Binaries returns redis-server and, if there is one, valkey-server.
func Binaries(t testing.TB) []Binary {
	t.Helper()
	list := []Binary{Redis(t)}
	if path, err := exec.LookPath("valkey-server"); err == nil {
		list = append(list, Binary{Name: "valkey", Path: path})
	}
	return list
}

// Server is one running process.
type Server struct {
	Addr string // 127.0.0.1 and the port
	Port int
	Dir  string // its working directory

	binary Binary
	args   []string
	env    []string // beside that of the test

	tls            *tls.Config // of its clients; nil without TLS
	user, password string      // of its clients; empty without AUTH

	mu  sync.Mutex
	cmd *exec.Cmd
	out *testkit.Buffer

	ended chan struct{} // closed when the process started last is gone
}

// Start starts a server without persistence. args are further options, as in
// "--maxmemory", "1mb". It is stopped when the test ends.
func Start(t testing.TB, b Binary, args ...string) *Server {
	t.Helper()
	s := newServer(t, b, testkit.FreePort(t), args)
	s.Run(t)
	return s
}

// Patient is the query of the URL of a store in all tests except those of timeouts: if a busy
// machine delays a process for longer than the default timeout, the process rightly decides
// without the store.
const Patient = "?timeout=1s"

// URL returns the URL of a server without TLS, with [Patient].
func (s *Server) URL() string { return "redis://" + s.Addr + Patient }

func newServer(t testing.TB, b Binary, port int, args []string) *Server {
	t.Helper()
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, Dir: t.TempDir(), binary: b}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", s.Dir,
		"--save", "", "--appendonly", "no", "--daemonize", "no",
	}, args...)
	return s
}

// Run starts the process again, after [Server.Kill], and waits until it answers.
func (s *Server) Run(t testing.TB) {
	t.Helper()
	s.Launch(t)
	s.Await(t)
}

// Launch starts the process again and does not wait for it.
func (s *Server) Launch(t testing.TB) {
	t.Helper()
	s.start(t, s.args)
}

// Await waits until the process answers: it may have to load its saved data.
func (s *Server) Await(t testing.TB) {
	t.Helper()
	waitFor(t, s.Addr+" to answer", func(ctx context.Context) error {
		client := newClient(false, s)
		defer client.Close()
		err := client.Do(ctx, "PING").Err
		select {
		case <-s.ended:
			t.Fatalf("%s ended:\n%s", s.binary.Path, s.Output())
		default:
		}
		return err
	})
}

func (s *Server) start(t testing.TB, args []string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out = new(testkit.Buffer)
	s.cmd = exec.Command(s.binary.Path, args...)
	dieWithParent(s.cmd)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Dir, s.cmd.Env = s.out, s.out, s.Dir, append(os.Environ(), s.env...)
	cmd, started, ended := s.cmd, make(chan error), make(chan struct{})
	s.ended = ended
	go func() {
		defer close(ended)
		// The process dies with the thread that started it, so that thread must not end
		// before.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // ProcessState has the result
		}
	}()
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", s.binary.Path, err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("stop %s: %v", s.Addr, err)
		}
		<-ended
	})
}

// Output returns the output of the process.
func (s *Server) Output() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

// Process returns the running process: to kill, stop and continue it.
func (s *Server) Process() *os.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cmd.Process
}

// Kill ends the process at once.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	if err := s.Process().Kill(); err != nil {
		t.Fatalf("kill %s: %v", s.Addr, err)
	}
	waitFor(t, s.Addr+" to be gone", func(ctx context.Context) error {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", s.Addr)
		if err != nil {
			return nil //nolint:nilerr // nobody listens, as expected
		}
		_ = conn.Close()
		return errors.New("it still listens")
	})
}

// Client returns a client of the server, closed when the test ends. For a [Shared] server it
// returns the client that all tests share.
func (s *Server) Client(t testing.TB) *Client {
	t.Helper()
	shared.mu.Lock()
	client := shared.admins[s]
	shared.mu.Unlock()
	if client != nil {
		return client
	}
	return s.Connect(t)
}

// waitFor waits until is returns no error, like [testkit.Until].
func waitFor(t testing.TB, what string, is func(context.Context) error) {
	t.Helper()
	var err error
	defer func() {
		if err != nil {
			t.Logf("%s: %v", what, err)
		}
	}()
	testkit.Until(t, what, func() bool {
		err = is(t.Context())
		return err == nil
	})
}

func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
