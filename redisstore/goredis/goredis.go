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
	"github.com/sluicegate/sluice/redisstore/internal/transport"
)

// New returns a Store on the client's servers. It returns an error if no server answers,
// or one is older than Redis 7.0 or Valkey 8. The client must be from [redis.NewClient],
// [redis.NewFailoverClient], [redis.NewClusterClient] or [redis.NewFailoverClusterClient];
// New returns an error for any other. New does not change the client's options. The caller
// must close the client after the Store. New blocks until the servers have returned their
// versions, at most for options.Timeout, or five seconds if that is more.
func New(client redis.UniversalClient, options redisstore.Options) (*redisstore.Store, error) {
	t := &overClient{client: client}
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
	s, err := transport.NewStore(t, options)
	if err != nil {
		return nil, err
	}
	store, _ := s.(*redisstore.Store) // it is one
	return store, nil
}

var errRing = errors.New("goredis: new: a *redis.Ring cannot keep limits: when one of its servers does not answer its keys go to others, where all budgets start anew, " +
	"and processes that do not see this at the same time charge different servers; use a Cluster (redis.NewClusterClient), or one server that Sentinels watch (redis.NewFailoverClient)")

// overClient is a [transport.Transport] over go-redis.
type overClient struct {
	client  redis.UniversalClient
	cluster bool
	prompt  bool // whether the client's calls always end with their context
}

func (t *overClient) Cluster() bool { return t.cluster }

func (t *overClient) Run(ctx context.Context, s *transport.Script) transport.Reply {
	c := newCommand(ctx, s)
	finished := t.finish(ctx, func() { _ = t.client.Process(ctx, c) }) // the error is the command's
	return t.replyOf(ctx, c, finished)
}

func (t *overClient) RunAll(ctx context.Context, list []*transport.Script, replies []transport.Reply) {
	pipe, all := t.client.Pipeline(), make([]*command, len(list))
	for i, s := range list {
		all[i] = newCommand(ctx, s)
		_ = pipe.Process(ctx, all[i]) // only adds it
	}
	finished := t.finish(ctx, func() { _, _ = pipe.Exec(ctx) }) // the errors are the commands'
	for i, c := range all {
		replies[i] = t.replyOf(ctx, c, finished)
	}
}

// replyOf returns the outcome of a command. If a server of a Cluster has not answered, it
// makes the client ask the others for the owners of the slots. By itself the client does so
// once in its ClusterStateReloadInterval, a minute.
func (t *overClient) replyOf(ctx context.Context, c *command, finished bool) (r transport.Reply) {
	if finished {
		r = c.reply(ctx)
	} else {
		r = c.withdraw(ctx.Err())
	}
	if cluster, ok := t.client.(*redis.ClusterClient); ok && r.Err != nil && !r.Refused {
		cluster.ReloadState(ctx) // in the background, one at a time
	}
	return r
}

// finish calls do and reports whether it ends before ctx does. By default go-redis waits for
// an answer until its own ReadTimeout is over, which may be long after ctx, or never. For a
// Cluster it also waits for the answer to its question for the owners of slots.
func (t *overClient) finish(ctx context.Context, do func()) bool {
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

func (t *overClient) Info(ctx context.Context) map[string]transport.Reply {
	var mu sync.Mutex
	replies := make(map[string]transport.Reply)
	ask := func(ctx context.Context, client *redis.Client) error {
		text, err := client.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		replies[client.Options().Addr] = transport.Reply{Text: text, Err: err}
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
			_ = ask(ctx, c) // always nil
		}
	})
	switch {
	case !ended: // ask may still write to replies
		return map[string]transport.Reply{"": {Err: &sluice.NotSentError{Err: ctx.Err()}}}
	case len(replies) == 0:
		return map[string]transport.Reply{"": {Err: err}}
	}
	return replies
}
