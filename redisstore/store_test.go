// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

func TestOptionsAreChecked(t *testing.T) {
	client := redistest.Shared(t, redistest.Redis(t)).Client(t)
	for _, c := range []struct {
		name    string
		options redisstore.Options
		want    string
	}{
		{"braces", redisstore.Options{Prefix: "a{b}"}, "no braces"},
		{"long prefix", redisstore.Options{Prefix: strings.Repeat("x", 257)}, "at most 256"},
		{"short secret", redisstore.Options{Secret: []byte("short")}, "16 random bytes"},
		{"timeout", redisstore.Options{Timeout: -1}, "negative"},
		{"two faults", redisstore.Options{Prefix: "{", Timeout: -1}, "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := redisstore.Over(client, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

// TestWarnsOfEviction: a store logs a warning if the server may evict any key.
func TestWarnsOfEviction(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	client := server.Client(t)
	for policy, want := range map[string]bool{"allkeys-lru": true, "allkeys-random": true, "volatile-ttl": false, "noeviction": false} {
		t.Run(policy, func(t *testing.T) {
			redistest.Do(t, client, "CONFIG", "SET", "maxmemory-policy", policy)
			var log bytes.Buffer
			open(t, server.Option(), redisstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if got := strings.Contains(log.String(), policy); got != want {
				t.Errorf("warned: got %t, want %t: %s", got, want, log.String())
			}
		})
	}
}

func TestClosedStoreAnswersNothing(t *testing.T) {
	s, err := redisstore.Open(t.Context(), "redis://"+redistest.Shared(t, redistest.Redis(t)).Addr, redisstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := testkit.Limiter(t, s, "scope", "5/min")
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Take(t.Context(), "k", 1); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("take: got %v, want %v", err, sluice.ErrClosed)
	}
	if err := s.TakeBatch(t.Context(), nil, nil); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("batch: got %v, want %v", err, sluice.ErrClosed)
	}
	slots, err := sluice.NewSlots(s, "scope", sluice.SlotLimit{Cap: 1, TTL: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slots.Acquire(t.Context(), "k", "o", 1); !errors.Is(err, sluice.ErrClosed) {
		t.Errorf("acquire: got %v, want %v", err, sluice.ErrClosed)
	}
}

// TestNoCallOutlivesItsDeadline: with a server that hangs, calls end by
// themselves, and Close ends too.
func TestNoCallOutlivesItsDeadline(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s, err := redisstore.Open(t.Context(), "redis://"+server.Addr, redisstore.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := testkit.Limiter(t, s, "scope", "5/min")
	server.Stop(t)
	line(20, func(i int) {
		if i%2 == 0 {
			if _, err := l.Take(context.Background(), "k", 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
			}
			return
		}
		out := make([]sluice.Result, 1)
		err := s.TakeBatch(context.Background(), []sluice.Request{{Charge: l.Of("other", 1)}}, out)
		if err := errors.Join(err, out[0].Err); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("batch: got %v, want %v", err, context.DeadlineExceeded)
		}
	})()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	server.Continue(t)
}

// TestBatchKeepsItsOrderWithoutScripts: the first requests of a batch are not
// overtaken by those on the same key whose script the server still knows.
func TestBatchKeepsItsOrderWithoutScripts(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server.Option(), redisstore.Options{Timeout: testkit.Ceiling})
	l := testkit.Limiter(t, s, "scope", "5/day")
	both := sluice.Request{Charge: l.Of("k", 2), More: []sluice.Charge{l.Of("other", 1)}}
	out := make([]sluice.Result, 1)
	if err := s.TakeBatch(t.Context(), []sluice.Request{{Charge: l.Of("k", 1)}}, out); err != nil {
		t.Fatal(err)
	}
	out = make([]sluice.Result, 2)
	if err := s.TakeBatch(t.Context(), []sluice.Request{both, {Charge: l.Of("k", 1)}}, out); err != nil {
		t.Fatal(err)
	}
	if first, second := out[0].Decision.Remaining, out[1].Decision.Remaining; first != 2 || second != 1 {
		t.Errorf("remaining %d, then %d; want 2, then 1", first, second)
	}
}

// TestNothingIsSentTwice: a request whose reply is lost may have been decided, so it is not
// sent again.
func TestNothingIsSentTwice(t *testing.T) {
	for _, retry := range []bool{false, true} {
		server := redistest.Shared(t, redistest.Redis(t))
		proxy := redistest.StartProxy(t, server.Addr)
		o := server.Option()
		o.InitAddress, o.DisableRetry = []string{proxy.Addr}, !retry
		s, err := redisstore.Over(redistest.Connect(t, o), redisstore.Options{Timeout: testkit.Ceiling})
		if err != nil {
			t.Fatal(err)
		}
		direct := open(t, server.Option(), redisstore.Options{})
		for _, text := range []string{"1000/day", "1000/day sliding-log", "1000/day sliding-counter"} {
			l, look := testkit.Limiter(t, s, "scope", text), testkit.Limiter(t, direct, "scope", text)
			if _, err := l.Take(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			proxy.CutNext()
			if _, err := l.Take(t.Context(), "k", 10); err == nil {
				t.Errorf("%s: got no error though the reply was lost", text)
			}
			if proxy.CutWaits() {
				t.Fatal("no script was sent")
			}
			if d, err := look.Peek(t.Context(), "k", 1); err != nil || d.Remaining != 1000-1-10 {
				t.Errorf("%s with the client's retries %t: got %+v, %v, want 989 remaining", text, retry, d, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSentinelAndTLS: the ways to connect that a single server does not try.
func TestSentinelAndTLS(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		for name, option := range map[string]func() rueidis.ClientOption{
			"sentinel": func() rueidis.ClientOption { return redistest.StartSentinel(t, b).Option() },
			"TLS":      func() rueidis.ClientOption { return redistest.StartTLS(t, b).Option() },
		} {
			t.Run(b.Name+" "+name, func(t *testing.T) {
				at := option()
				if name == "sentinel" { // the user of the other has no right to it
					shareSecret(t, at)
				}
				s := open(t, at, redisstore.Options{Timeout: testkit.Ceiling})
				for _, text := range []string{"2/day", "2/day sliding-log", "2/day sliding-counter", "2/day sliding-histogram", "2/year calendar UTC"} {
					l := testkit.Limiter(t, s, "scope", text)
					for i, want := range []bool{true, true, false} {
						if d, err := l.Take(t.Context(), "k", 1); err != nil || d.Allowed != want {
							t.Errorf("%s: take %d: got %+v, %v, want allowed %t", text, i+1, d, err, want)
						}
					}
				}
			})
		}
	}
}
