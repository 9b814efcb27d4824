// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/deadline"
	"github.com/sluicegate/sluice/internal/stores"
)

// Store is a [sluice.Store] and [sluice.SlotStore] on a Redis or Valkey server: a single
// one, the master that a Sentinel names, or a Cluster. Time is the server's. A Store is
// safe for concurrent use and ends with [Store.Close]. Its methods return the errors of
// [sluice.Store]: the server's, or one when ctx or Options.Timeout ends.
//
// A request whose caller leaves continues without it, and its [*sluice.MaybeSentError] gets
// the answer if that comes within Options.Timeout. A script that may have reached the server
// is not sent again.
type Store struct {
	client    Client
	options   Options
	programs  *programs
	keyer     keyer
	plans     *compiled.Prepared[*prepared]
	series    allSeries
	writers   writers
	swapping  *turns
	cluster   bool
	clock     func() time.Time // this machine's; not used for decisions
	queues    queues
	deadlines deadline.Shared
	calls     sync.Pool // of *call

	secretText atomic.Pointer[string] // the server's secret for HashSecret, as last read

	gathering gathering
	workers   workers
	leads     func()       // s.lead
	left      atomic.Int64 // requests under way whose callers have left

	inject func() int64 // returns the server's time, for tests of the scripts

	pending *underway
}

// New returns a Store over a [Client] of the program's own. Packages rueidisstore and goredis
// make a Store over the client of a library. It asks the servers for their versions, by
// [CheckServers], and returns its error, or one with all faults of the options. It blocks for
// at most options.Timeout, or five seconds if that is more. The client stays the caller's.
func New(client Client, options Options) (*Store, error) {
	err := options.Validate()
	options = options.filled()
	if err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience(&options))
		defer cancel()
		err = CheckServers(ctx, client, options.Logger)
	}
	if err != nil {
		return nil, fmt.Errorf("redisstore: new: %w", err)
	}
	return newStore(client, options), nil
}

// newStore returns a Store without a check of the servers.
func newStore(client Client, options Options) *Store {
	s := &Store{
		client:   client,
		options:  options,
		programs: newPrograms(),
		plans:    new(compiled.Prepared[*prepared]),
		keyer:    keyer{prefix: options.Prefix, secret: options.Secret},
		cluster:  client.Cluster(),
		clock:    now,
		swapping: newTurns(),
		pending:  newUnderway(),
	}
	if c, ok := client.(stores.Clocked); ok {
		s.inject = func() int64 { return int64(c.Now()) }
	}
	s.leads = s.lead
	s.workers.pending = s.pending
	s.queues.init()
	return s
}

// Close waits for requests under way, no longer than Options.Timeout, and ends the Store.
// Later requests return [sluice.ErrClosed]. It does not close the [Client].
func (s *Store) Close() error {
	s.pending.end()
	s.workers.end()
	return nil
}

// Format prints no secret, whatever the verb is.
func (s *Store) Format(f fmt.State, _ rune) {
	_, _ = f.Write([]byte("redisstore")) // the printer handles the error
}

// admit counts a request in s.pending. If there is no error, the caller must call
// s.pending.done.
func (s *Store) admit(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case s.left.Load() >= mostLeft:
		err = ErrOverloaded
	case !s.pending.enter():
		err = sluice.ErrClosed
	default:
		return nil
	}
	return &sluice.NotSentError{Err: err}
}

// work has a worker call do. The caller must still be counted in s.pending.
func (s *Store) work(do func()) {
	s.pending.more()
	s.workers.do(do)
}

// Take decides one request. It blocks for one round trip, no longer than ctx or
// Options.Timeout. It takes two round trips or more if a limit was changed or its rule has
// just started, and for keys in different slots of a Cluster two, plus one for each slot.
// If the server hangs and too many callers have left, Take returns [ErrOverloaded] at once,
// and the request is not sent.
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	if err := s.admit(ctx); err != nil {
		return sluice.Decision{}, wrap(&req, err)
	}
	defer s.pending.done()
	d, err := s.decide(ctx, &req)
	if err != nil {
		return sluice.Decision{}, wrap(&req, err)
	}
	return d, nil
}

// decide decides a valid request.
func (s *Store) decide(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	if len(req.More) == 0 && req.Slot == nil && !s.options.NoCoalescing && s.inject == nil {
		return s.coalesce(ctx, req)
	}
	return s.alone(ctx, req)
}

// alone decides a request by a call of its own.
func (s *Store) alone(ctx context.Context, theirs *sluice.Request) (sluice.Decision, error) {
	within, c := s.bound(), s.newCall(theirs)
	req := &c.room.req
	*req = *theirs
	switch {
	case ctx.Done() == nil && req.Slot == nil && len(c.items) == 1:
		d, err := s.direct(within, c, req) //nolint:contextcheck // ctx never ends
		s.recycle(c)
		return d, err
	case ctx.Done() == nil:
		return s.direct(within, c, req) //nolint:contextcheck // ctx never ends
	case req.Slot != nil || rare(req) || s.crosses(c) || s.swaps(c):
		return s.apart(ctx, within, req, func(ctx context.Context) (sluice.Decision, error) { return s.direct(ctx, c, req) })
	}
	return s.once(ctx, within, c, req)
}

// direct decides req by c, or by calls to several slots. ctx is a context of the store's
// own.
func (s *Store) direct(ctx context.Context, c *call, req *sluice.Request) (sluice.Decision, error) {
	if req.Slot != nil {
		return s.slotted(ctx, c, req)
	}
	if s.crosses(c) {
		d, err := s.across(ctx, req, c.tags)
		if err != nil {
			return d, hidden(err)
		}
		c.now = decidedAt(&d)
		c.noteDecided()
		return d, nil
	}
	j := c.ask(req)
	err := s.run(ctx, c)
	return j.decision, err
}
