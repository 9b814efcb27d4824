// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package rueidisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

// logTo returns a logger that writes to a buffer.
func logTo(b *testkit.Buffer) *slog.Logger { return slog.New(slog.NewTextHandler(b, nil)) }

// openURL returns the store at a URL, closed when the test ends.
func openURL(t *testing.T, ctx context.Context, url string, options redisstore.Options) *rueidisstore.Store { //nolint:revive // t comes first
	t.Helper()
	s, err := rueidisstore.Open(ctx, url, options)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// works waits until a store is connected and decides.
func works(t *testing.T, s *rueidisstore.Store) {
	t.Helper()
	testkit.Until(t, "a connection", func() bool { return s.Err() == nil })
	l := testkit.Limiter(t, s, "works", "1/h sliding-log")
	var d sluice.Decision
	for range 2 {
		testkit.Until(t, "a decision", func() bool { // on a busy machine a request may exceed the client's timeout
			var err error
			d, err = l.Take(t.Context(), t.Name(), 1)
			return err == nil
		})
	}
	if d.Allowed {
		t.Errorf("take 2: got %+v, want denied", d)
	}
}

// unsent checks that no request of any kind is sent, and that each error says why.
func unsent(t *testing.T, s *rueidisstore.Store, why string) {
	t.Helper()
	l := testkit.Limiter(t, s, "scope", "5/min")
	req := sluice.Request{Charge: l.Of("k", 1)}
	slot := sluice.SlotRequest{Scope: "scope", Key: "k", Owner: "o", Cost: 1, Limit: sluice.SlotLimit{Name: "open", Cap: 1, TTL: time.Second}}
	for name, do := range map[string]func() error{
		"take":             func() error { _, err := s.Take(t.Context(), req); return err },
		"take for ever":    func() error { _, err := s.Take(context.Background(), req); return err },
		"slot":             func() error { _, err := s.Slot(t.Context(), slot); return err },
		"explanation":      func() error { _, err := s.Explain(t.Context(), req); return err },
		"slot explanation": func() error { _, err := s.ExplainSlot(t.Context(), slot); return err },
		"batch": func() error {
			out := make([]sluice.Result, 2)
			err := s.TakeBatch(t.Context(), []sluice.Request{req, req}, out)
			return errors.Join(err, out[1].Err)
		},
	} {
		err := do()
		if _, ok := errors.AsType[*sluice.NotSentError](err); !ok || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: got %v, want a %T with %q", name, err, &sluice.NotSentError{}, why)
		}
	}
}

// TestServerDownAtOpen: a store opens while its servers are down, says so, and works as soon
// as they are up: a single server, the nodes of a Cluster, and sentinels.
func TestServerDownAtOpen(t *testing.T) {
	b := redistest.Redis(t)
	for name, start := range map[string]func(t *testing.T) (url string, servers []*redistest.Server){
		"single": func(t *testing.T) (string, []*redistest.Server) {
			s := redistest.Start(t, b)
			return "redis://" + s.Addr, []*redistest.Server{s}
		},
		"cluster": func(t *testing.T) (string, []*redistest.Server) {
			c := redistest.StartCluster(t, b, 2, false)
			return "redis-cluster://" + c.Masters[0].Addr + "," + c.Masters[1].Addr, c.Masters
		},
		"sentinels": func(t *testing.T) (string, []*redistest.Server) {
			s := redistest.StartSentinel(t, b)
			var hosts []string
			for _, n := range s.Sentinels {
				hosts = append(hosts, n.Addr)
			}
			return "redis-sentinel://" + strings.Join(hosts, ",") + "/" + redistest.MasterSet, s.Sentinels
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "single" {
				testkit.Long(t)
			}
			url, servers := start(t)
			for _, s := range servers {
				s.Kill(t)
			}
			var log testkit.Buffer
			s := openURL(t, t.Context(), url, redisstore.Options{Logger: logTo(&log), Timeout: testkit.Ceiling})
			if err := s.Err(); err == nil || !strings.Contains(err.Error(), "connection refused") {
				t.Errorf("got %v, want an error with the network's", err)
			}
			unsent(t, s, "connection refused")
			for _, server := range servers {
				server.Launch(t)
			}
			works(t, s)
			testkit.Until(t, "a line", func() bool { return strings.Contains(log.String(), "the store is connected") })
			if got := strings.Count(log.String(), "level=WARN"); got != 1 {
				t.Errorf("%d warnings, want 1:\n%s", got, log.String())
			}
		})
	}
}

// TestOpenRefuses: Open returns a permanent fault as an error, without a password.
func TestOpenRefuses(t *testing.T) {
	const secret = "s3cr3tw0rd"
	server := redistest.StartTLS(t, redistest.Redis(t))
	ca := "?ca_file=" + filepath.Join(server.Dir, "cert.pem")
	for _, c := range []struct {
		name, url string
		options   redisstore.Options
		want      string
		server    bool // refuses
	}{
		{"no URL", "", redisstore.Options{}, "redis://127.0.0.1:6379", false},
		{"no URL, but a variable", "env:REDIS_URL", redisstore.Options{}, "redis://127.0.0.1:6379", false},
		{"not escaped", "redis://u:" + secret + "/x@h", redisstore.Options{}, "%2F", false},
		{"option", "redis://" + server.Addr, redisstore.Options{Timeout: -1}, "Timeout", false},
		{"prefix of the URL", "redis://" + server.Addr + "?prefix={", redisstore.Options{}, "braces", false},
		{"missing file", "rediss://" + server.Addr + "?ca_file=/does/not/exist", redisstore.Options{}, "ca_file", false},
		{"missing secret", "redis://" + server.Addr + "?secret_file=/does/not/exist", redisstore.Options{}, "secret_file", false},
		{"wrong password", "rediss://" + redistest.User + ":" + secret + "@" + server.Addr + ca, redisstore.Options{}, "WRONGPASS", true},
		{"unknown authority", "rediss://u:" + secret + "@" + server.Addr, redisstore.Options{}, "certificate", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log *testkit.Buffer
			var err error
			refused := func() bool {
				log = new(testkit.Buffer)
				c.options.Logger = logTo(log)
				var s *rueidisstore.Store
				if s, err = rueidisstore.Open(t.Context(), c.url, c.options); err == nil {
					_ = s.Close() // it should not have opened
				}
				return err != nil
			}
			if c.server { // on a busy machine an answer may take longer than Open waits
				testkit.Until(t, "an answer", refused)
			} else if !refused() {
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "rueidisstore: open: ") {
				t.Errorf("got %q, want %q", err, c.want)
			}
			if shown := err.Error() + log.String(); strings.Contains(shown, secret) {
				t.Errorf("the password is shown: %s", shown)
			}
			if log.String() != "" {
				t.Errorf("logged what is returned: %s", log)
			}
		})
	}
	testkit.Until(t, "all goroutines to end", func() bool { return connecting() == 0 })
}

// TestPasswordIsNotShown: user and password of a URL are used, but a store never shows them:
// in print, logs or errors.
func TestPasswordIsNotShown(t *testing.T) {
	server := redistest.StartTLS(t, redistest.Redis(t))
	var log testkit.Buffer
	line := "rediss://" + url.UserPassword(redistest.User, redistest.Password).String() + "@" + server.Addr +
		"?ca_file=" + filepath.Join(server.Dir, "cert.pem")
	const secret = "sixteen bytes of secret"
	s := openURL(t, t.Context(), line, redisstore.Options{Logger: logTo(&log), Secret: []byte(secret), Timeout: testkit.Ceiling})
	works(t, s)
	server.Kill(t)
	shown := fmt.Sprintf("%v %+v %#v %s %q %d", s, s, s, s, s, s)
	logTo(&log).Info("a store", slog.Any("store", s))
	slog.New(slog.NewJSONHandler(&log, nil)).Info("a store", slog.Any("store", s))
	l := testkit.Limiter(t, s, "scope", "5/min")
	for range 3 {
		_, err := l.Take(t.Context(), "k", 1)
		shown += fmt.Sprintf(" %v %+v %#v", err, err, err)
	}
	// The same holds without a connection.
	down := openURL(t, t.Context(), line, redisstore.Options{Logger: logTo(&log)})
	shown += fmt.Sprintf("%v %+v %#v %v", down, down, down, down.Err())
	shown += log.String()
	for _, hidden := range []string{redistest.User, redistest.Password, url.QueryEscape(redistest.Password), url.PathEscape(redistest.Password), secret, fmt.Sprintf("%v", []byte(secret))} {
		if strings.Contains(shown, hidden) {
			t.Errorf("%q is shown:\n%s", hidden, shown)
		}
	}
	if want := "rediss://" + server.Addr; fmt.Sprint(s) != want || !strings.Contains(log.String(), want) {
		t.Errorf("got %v, want %q, also in the log:\n%s", s, want, log.String())
	}
}

// TestRefusedLater: a server answers only after Open and refuses the password. The store logs
// this, and errors of requests say why; once the server accepts the password, the store works.
func TestRefusedLater(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	admin := server.Client(t) // stays connected, and so authenticated
	password := func(to string) {
		t.Helper()
		redistest.Do(t, admin, "CONFIG", "SET", "requirepass", to)
	}
	password("another")
	server.Stop(t)
	var log testkit.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s := openURL(t, ctx, "redis://:mine@"+server.Addr, redisstore.Options{Logger: logTo(&log), Timeout: testkit.Ceiling})
	server.Continue(t)
	testkit.Until(t, "a refusal", func() bool { return strings.Contains(fmt.Sprint(s.Err()), "WRONGPASS") })
	unsent(t, s, "WRONGPASS")
	testkit.Until(t, "a warning", func() bool { return strings.Contains(log.String(), "WRONGPASS") })
	if got := strings.Count(log.String(), "level=WARN"); got > 2 {
		t.Errorf("%d warnings, want at most 2:\n%s", got, log.String())
	}
	password("mine")
	works(t, s)
}

// connecting returns the number of goroutines that try to connect.
func connecting() int {
	stacks := make([]byte, 1<<22)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "rueidisstore.(*link).run(")
}

// TestOpenEndsWithItsContext: if a server hangs, Open waits no longer than its context.
// After a deadline it returns a store that keeps connecting, after a cancellation an error.
func TestOpenEndsWithItsContext(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	server.Stop(t)
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if s, err := rueidisstore.Open(cancelled, "redis://"+server.Addr, redisstore.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v, %v, want %v", s, err, context.Canceled)
	}
	if n := connecting(); n != 0 {
		t.Errorf("cancelled: %d goroutines go on", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	s := openURL(t, ctx, "redis://"+server.Addr, redisstore.Options{Timeout: testkit.Ceiling})
	unsent(t, s, "no connection yet")
	server.Continue(t)
	works(t, s)
}

// TestCloseWhileConnecting: Close ends the goroutine and its connections while a server hangs,
// while it is unavailable, and when it has just come up.
func TestCloseWhileConnecting(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	server := redistest.Start(t, redistest.Redis(t))
	for name, at := range map[string]string{
		"hangs": "redis://" + silent.Addr().String(), "away": "redis://127.0.0.1:1", "there": "redis://" + server.Addr,
		"sentinel hangs": "redis-sentinel://" + silent.Addr().String() + "/m", "cluster hangs": "redis-cluster://" + silent.Addr().String(),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			s, err := rueidisstore.Open(ctx, at, redisstore.Options{})
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for range 2 {
				wg.Go(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if n := connecting(); n != 0 {
				t.Errorf("%d goroutines go on", n)
			}
			l := testkit.Limiter(t, s, "scope", "5/min")
			if _, err := l.Take(t.Context(), "k", 1); !errors.Is(err, sluice.ErrClosed) {
				t.Errorf("got %v, want %v", err, sluice.ErrClosed)
			}
		})
	}
	client := server.Client(t)
	testkit.Until(t, "all connections to end", func() bool {
		return !strings.Contains(redistest.Do(t, client, "CLIENT", "LIST"), "name=sluice")
	})
}

// TestOptionsOfTheURL: the URL sets the Options that are zero.
func TestOptionsOfTheURL(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("a secret of sixteen"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		parameters string
		options    redisstore.Options
		prefix     string
		hashed     bool
	}{
		{"", redisstore.Options{}, "sluice{", false},
		{"?prefix=url", redisstore.Options{}, "url{", false},
		{"?prefix=url", redisstore.Options{Prefix: "mine"}, "mine{", false},
		{"?prefix=hashed&secret_file=" + secret, redisstore.Options{}, "hashed{", true},
	} {
		redistest.Do(t, client, "FLUSHALL")
		c.options.Timeout = testkit.Ceiling
		s := openURL(t, t.Context(), "redis://"+server.Addr+c.parameters, c.options)
		if _, err := testkit.Limiter(t, s, "scope", "5/h").Take(t.Context(), "a-user", 1); err != nil {
			t.Fatal(err)
		}
		list := redistest.Keys(t, client)
		if len(list) != 1 || !strings.HasPrefix(list[0], c.prefix) || strings.Contains(list[0], "a-user") == c.hashed {
			t.Errorf("%q, %+v: got keys %q, want one with %q", c.parameters, c.options, list, c.prefix)
		}
	}
	for parameters, want := range map[string]time.Duration{"": bounds.DefaultRedisTimeout, "?timeout=20ms": 20 * time.Millisecond} {
		s := openURL(t, t.Context(), "redis://"+server.Addr+parameters, redisstore.Options{})
		timeout := reflect.ValueOf(s.Store).Elem().FieldByName("options").FieldByName("Timeout") // no method returns it
		if got := time.Duration(timeout.Int()); got != want {
			t.Errorf("%q: got a timeout of %v, want %v", parameters, got, want)
		}
	}
}
