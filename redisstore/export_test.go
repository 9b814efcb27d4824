// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"

	"github.com/sluicegate/sluice/internal/redistest"
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
