// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"

	"github.com/redis/rueidis"
)

// The client makes a connection under the context of who needs it first, and all
// who need it wait for that one, whatever their own contexts say. And it gives
// the deadline of a call that is alone on a connection to the connection, which
// then breaks for all, and hears of nothing else meanwhile. So a caller's context
// never reaches it: what it is asked ends when the Timeout is over, by when a
// server that says nothing is given up anyway, and the caller leaves when he
// likes.

// pass has the client do one command.
func (s *Store) pass(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	if shared(ctx) {
		return s.client.Do(ctx, cmd)
	}
	res, err := apart(ctx, s, func(ctx context.Context) rueidis.RedisResult { return s.client.Do(ctx, cmd) })
	if err != nil {
		return rueidis.NewErrorResult(err)
	}
	return res
}

// passAll has the client do several commands in one piece.
func (s *Store) passAll(ctx context.Context, cmds []rueidis.Completed) ([]rueidis.RedisResult, error) {
	if shared(ctx) {
		return s.client.DoMulti(ctx, cmds...), nil
	}
	return apart(ctx, s, func(ctx context.Context) []rueidis.RedisResult { return s.client.DoMulti(ctx, cmds...) })
}

// shared reports whether ctx is one of the store's, which may reach the client.
func shared(ctx context.Context) bool {
	switch ctx.(type) {
	case bounded, patient:
		return true
	}
	return false
}

// apart asks under a context of the store's own and waits no longer than ctx.
// What it has begun ends with the Timeout.
func apart[T any](ctx context.Context, s *Store, ask func(context.Context) T) (answer T, err error) {
	if err := ctx.Err(); err != nil {
		return answer, err
	}
	reply, caller := make(chan T, 1), new(abandonment)
	// The caller is pending still: Close waits for both.
	s.pending.Go(func() { //nolint:contextcheck // see above
		reply <- ask(s.spans.of(now(), s.options.Timeout))
		s.left.finish(caller)
	})
	select {
	case answer = <-reply:
		return answer, nil
	case <-ctx.Done():
		s.left.abandon(caller)
		return answer, ctx.Err()
	}
}
