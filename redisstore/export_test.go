// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// Over returns a Client over a client of the tests.
func Over(client *redistest.Client) Client { return testClient{client} }

type testClient struct{ *redistest.Client }

// Run implements [Client].
func (c testClient) Run(ctx context.Context, scripts []*Script, replies []Reply) {
	commands := make([][]string, len(scripts))
	for i, s := range scripts {
		commands[i] = redistest.ScriptCommand(s.SHA, s.Text, s.Keys, s.Args)
	}
	for i, r := range c.Pipeline(ctx, commands...) {
		replies[i] = replyOf(r)
	}
}

func replyOf(r redistest.Reply) Reply {
	reply := Reply{Err: r.Err, Refused: r.Refused, Text: r.Text}
	if r.List != nil {
		reply.List = make([]Reply, len(r.List))
	}
	for i := range r.List {
		reply.List[i] = replyOf(r.List[i])
	}
	return reply
}

// AtTime returns a Store that decides at the instants that now returns.
func AtTime(t testing.TB, client *redistest.Client, prefix string, now func() time.Time) *Store {
	t.Helper()
	s, err := New(Over(client), Options{Prefix: prefix, Timeout: testkit.Ceiling, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s.inject = func() int64 { return max(now().UnixMicro(), 0) }
	return s
}

// Timeout is that of the Store's Options.
func (s *Store) Timeout() time.Duration { return s.options.Timeout }
