// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package teststore makes stores of package redisstore over the client of package redistest,
// for tests that need no other library for Redis.
package teststore

import (
	"context"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/stores"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// New returns a store on the single server at an address. It is closed when the test ends.
func New(t testing.TB, addr string, options redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(client{redistest.ConnectTo(t, addr)}, options)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// AtTime is New for a store that decides at the instants that now returns.
func AtTime(t testing.TB, addr string, options redisstore.Options, now func() time.Time) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(clocked{client{redistest.ConnectTo(t, addr)}, now}, options)
	if err != nil {
		t.Fatal(err)
	}
	return testkit.Closed(t, s)
}

// clocked is a client that sets the store's time.
type clocked struct {
	client
	now func() time.Time
}

// Now implements [stores.Clocked].
func (c clocked) Now() stores.Micros { return stores.Micros(max(c.now().UnixMicro(), 0)) }

type client struct{ *redistest.Client }

// Run implements [redisstore.Client].
func (c client) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	commands := make([][]string, len(scripts))
	for i, s := range scripts {
		commands[i] = redistest.ScriptCommand(s.SHA, s.Text, s.Keys, s.Args)
	}
	for i, r := range c.Pipeline(ctx, commands...) {
		replies[i] = replyOf(r)
	}
}

func replyOf(r redistest.Reply) redisstore.Reply {
	reply := redisstore.Reply{Err: r.Err, Refused: r.Refused, Text: r.Text}
	if r.List != nil {
		reply.List = make([]redisstore.Reply, len(r.List))
	}
	for i := range r.List {
		reply.List[i] = replyOf(r.List[i])
	}
	return reply
}
