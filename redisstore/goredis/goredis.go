// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/redisstore"
)

// New returns a Store on the client's servers. It returns an error if no server answers,
// or one is older than Redis 7.0 or Valkey 8. The client must be from [redis.NewClient],
// [redis.NewFailoverClient], [redis.NewClusterClient] or [redis.NewFailoverClusterClient];
// New returns an error for any other. New does not change the client's options. The caller
// must close the client after the Store. New blocks until the servers have returned their
// versions, at most for options.Timeout, or five seconds if that is more.
func New(client redis.UniversalClient, options redisstore.Options) (*redisstore.Store, error) {
	a := &adapter{client: client}
	switch c := client.(type) {
	case *redis.Client:
		a.prompt = c.Options().ContextTimeoutEnabled
	case *redis.ClusterClient:
		a.cluster = true
	case *redis.Ring:
		return nil, errRing
	default:
		return nil, fmt.Errorf("goredis: new: a %T is not supported; use a *redis.Client or a *redis.ClusterClient", client)
	}
	return redisstore.New(a, options)
}

var errRing = errors.New("goredis: new: a *redis.Ring cannot keep limits: when one of its servers does not answer its keys go to others, where all budgets start anew, " +
	"and processes that do not see this at the same time charge different servers; use a Cluster (redis.NewClusterClient), or one server that Sentinels watch (redis.NewFailoverClient)")

// adapter is a [redisstore.Client] over go-redis.
type adapter struct {
	client  redis.UniversalClient
	cluster bool
	prompt  bool // whether the client's calls always end with their context
}

func (a *adapter) Cluster() bool { return a.cluster }

func (a *adapter) Run(ctx context.Context, scripts []*redisstore.Script, replies []redisstore.Reply) {
	if len(scripts) == 1 {
		c := newCommand(ctx, scripts[0])
		finished := a.finish(ctx, func() { _ = a.client.Process(ctx, c) }) // the error is the command's
		replies[0] = a.replyOf(ctx, c, finished)
		return
	}
	pipe, all := a.client.Pipeline(), make([]*command, len(scripts))
	for i, s := range scripts {
		all[i] = newCommand(ctx, s)
		_ = pipe.Process(ctx, all[i]) // only adds it
	}
	finished := a.finish(ctx, func() { _, _ = pipe.Exec(ctx) }) // the errors are the commands'
	for i, c := range all {
		replies[i] = a.replyOf(ctx, c, finished)
	}
}

// replyOf returns the outcome of a command. If a server of a Cluster has not answered, it
// makes the client ask the others for the owners of the slots. By itself the client does so
// once in its ClusterStateReloadInterval, a minute.
func (a *adapter) replyOf(ctx context.Context, c *command, finished bool) (r redisstore.Reply) {
	if finished {
		r = c.reply(ctx)
	} else {
		r = c.withdraw(ctx.Err())
	}
	if cluster, ok := a.client.(*redis.ClusterClient); ok && r.Err != nil && !r.Refused {
		cluster.ReloadState(ctx) // in the background, one at a time
	}
	return r
}

// finish calls do and reports whether it ends before ctx does. By default go-redis waits for
// an answer until its own ReadTimeout is over, which may be long after ctx, or never. For a
// Cluster it also waits for the answer to its question for the owners of slots.
func (a *adapter) finish(ctx context.Context, do func()) bool {
	if a.prompt {
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

func (a *adapter) Info(ctx context.Context) (map[string]string, error) {
	var mu sync.Mutex
	texts := make(map[string]string)
	var faults []error
	ask := func(ctx context.Context, client *redis.Client) error {
		text, err := client.Info(ctx).Result()
		mu.Lock()
		defer mu.Unlock()
		if addr := client.Options().Addr; err == nil {
			texts[addr] = text
		} else {
			faults = append(faults, fmt.Errorf("%s: %w", addr, err))
		}
		return nil
	}
	err := errNoServer
	ended := a.finish(ctx, func() {
		switch c := a.client.(type) {
		case *redis.ClusterClient:
			if e := c.ForEachMaster(ctx, ask); e != nil {
				err = e
			}
		case *redis.Client:
			_ = ask(ctx, c) // always nil
		}
	})
	switch {
	case !ended: // ask may still write to texts
		return nil, ctx.Err()
	case len(texts)+len(faults) == 0:
		return nil, err
	}
	return texts, errors.Join(faults...)
}
