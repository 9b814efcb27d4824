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

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/redistest/clienttest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

func TestOptionsAreChecked(t *testing.T) {
	client := redisstore.Over(redistest.Shared(t, redistest.Redis(t)).Client(t))
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
			if _, err := redisstore.New(client, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
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
			open(t, server, redisstore.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if got := strings.Contains(log.String(), policy); got != want {
				t.Errorf("warned: got %t, want %t: %s", got, want, log.String())
			}
		})
	}
}

func TestClosedStoreAnswersNothing(t *testing.T) {
	s, err := redisstore.New(redisstore.Over(redistest.Shared(t, redistest.Redis(t)).Connect(t)), redisstore.Options{})
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

// TestNoCallOutlivesItsDeadline: if the server hangs, calls end by themselves, and so does
// Close.
func TestNoCallOutlivesItsDeadline(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	s, err := redisstore.New(redisstore.Over(server.Connect(t)), redisstore.Options{Timeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	l := testkit.Limiter(t, s, "scope", "5/min")
	server.Stop(t)
	clienttest.Line(20, func(i int) {
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

// TestBatchKeepsItsOrderWithoutScripts: later requests of a batch do not overtake earlier ones
// on the same key because the server still knows their script.
func TestBatchKeepsItsOrderWithoutScripts(t *testing.T) {
	server := redistest.Shared(t, redistest.Redis(t))
	s := open(t, server, redisstore.Options{Timeout: testkit.Ceiling})
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
