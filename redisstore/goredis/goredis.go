// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/redisstore"
)

// New returns a Store on the client's server, as [redisstore.New] does. The
// client is one of [redis.NewClient], [redis.NewFailoverClient],
// [redis.NewClusterClient] or [redis.NewFailoverClusterClient]; any other is
// refused. It stays the caller's, to be closed after the Store, and its options
// stay as they are. New blocks for as long as the server takes to tell its
// version, no longer than options.Timeout or five seconds if that is more.
func New(client redis.UniversalClient, options redisstore.Options) (*redisstore.Store, error) {
	t := &transport{client: client}
	switch c := client.(type) {
	case *redis.Client:
		t.prompt = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		t.cluster = true
	case *redis.Ring:
		return nil, errRing
	default:
		return nil, fmt.Errorf("goredis: new: a %T is not known: give a *redis.Client or a *redis.ClusterClient", client)
	}
	return redisstore.NewOver(t, options)
}

var errRing = errors.New("goredis: new: a *redis.Ring cannot keep limits: when one of its servers does not answer its keys go to others, where all budgets start anew, " +
	"and processes that do not see this at the same time charge different servers; use a Cluster (redis.NewClusterClient), or one server that Sentinels watch (redis.NewFailoverClient)")

// transport is a [redisstore.Transport] over go-redis.
type transport struct {
	client  redis.UniversalClient
	cluster bool
	prompt  bool // the client ends with a context whatever it waits for
}

func (t *transport) Cluster() bool { return t.cluster }

func (t *transport) Run(ctx context.Context, s *redisstore.Script) redisstore.Reply {
	c := newCommand(ctx, s)
	finished := t.finish(ctx, func() { _ = t.client.Process(ctx, c) }) // the error is the command's
	return t.replyOf(ctx, c, finished)
}

func (t *transport) RunAll(ctx context.Context, list []*redisstore.Script, replies []redisstore.Reply) {
	pipe, all := t.client.Pipeline(), make([]*command, len(list))
	for i, s := range list {
		all[i] = newCommand(ctx, s)
		_ = pipe.Process(ctx, all[i]) // which only adds it
	}
	finished := t.finish(ctx, func() { _, _ = pipe.Exec(ctx) }) // the errors are the commands'
	for i, c := range all {
		replies[i] = t.replyOf(ctx, c, finished)
	}
}

// replyOf returns what became of a command. Where a server of a Cluster has given
// no answer the client asks the others who has its slots now: by itself it does so
// once in its ClusterStateReloadInterval, of a minute.
func (t *transport) replyOf(ctx context.Context, c *command, finished bool) (r redisstore.Reply) {
	if finished {
		r = c.reply(ctx)
	} else {
		r = c.withdraw(ctx.Err())
	}
	if cluster, ok := t.client.(*redis.ClusterClient); ok && r.Err != nil && !r.Refused {
		cluster.ReloadState(ctx) // which goes on by itself, one at a time
	}
	return r
}

// finish reports whether do ends before ctx does. By default go-redis waits for
// an answer until its own ReadTimeout is over, which may be long after that, or
// never. Of a Cluster it also waits for what it has to ask first.
func (t *transport) finish(ctx context.Context, do func()) bool {
	if t.prompt {
		do()
		return true
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		do()
	}()
	select {
	case <-ended:
		return true
	case <-ctx.Done():
		return false
	}
}

var errNoServer = errors.New("the client knows no server")

func (t *transport) Info(ctx context.Context) map[string]redisstore.Reply {
	var mu sync.Mutex
	replies := make(map[string]redisstore.Reply)
	ask := func(ctx context.Context, client *redis.Client) error {
		text, err := client.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		replies[client.Options().Addr] = redisstore.Reply{Text: text, Err: err}
		return nil
	}
	err := errNoServer
	ended := t.finish(ctx, func() {
		switch c := t.client.(type) {
		case *redis.ClusterClient:
			if e := c.ForEachMaster(ctx, ask); e != nil {
				err = e
			}
		case *redis.Client:
			_ = ask(ctx, c) // which fails nowhere
		}
	})
	switch {
	case !ended: // and who asks may still write
		return map[string]redisstore.Reply{"": {Err: &sluice.NotSentError{Err: ctx.Err()}}}
	case len(replies) == 0:
		return map[string]redisstore.Reply{"": {Err: err}}
	}
	return replies
}
