// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
)

// Store is a [sluice.Store] and [sluice.SlotStore] on a Redis or Valkey server:
// a single one, the master that a Sentinel names, or a Cluster. Time is the
// server's. A Store is safe for concurrent use and ends with [Store.Close].
//
// A request whose caller leaves goes on without him, and is answered to his
// [*sluice.MaybeSentError] until Options.Timeout is over. A script that may have
// reached the server is not sent again.
type Store struct {
	transport Transport
	end       func() // closes what the Store has opened, nil if that is nothing
	options   Options
	programs  *programs
	keyer     keyer
	plans     *sluice.Prepared[*prepared]
	series    allSeries
	writers   writers
	swapping  *turns
	cluster   bool
	clock     func() time.Time // this machine's: it only guesses calendar windows
	lines     lines
	spans     spans

	gathering gathering
	workers   workers
	leads     func()       // s.lead
	left      atomic.Int64 // requests under way whose callers have left

	inject func() int64 // the server's now, for tests of the scripts

	mu      sync.RWMutex
	closed  bool
	pending sync.WaitGroup
}

// New returns a Store on the client's server. It asks the server for its
// version, which must be Redis 7.0 or Valkey 8 or later, and warns of settings
// under which it may forget. The client stays the caller's, to be closed after
// the Store. Scripts are never sent a second time whatever the client's options
// are: see [Open] for a client made as a Store needs it.
func New(client rueidis.Client, options Options) (*Store, error) {
	return NewOver(&viaRueidis{client}, options)
}

// NewOver is [New] over another client of Redis.
func NewOver(transport Transport, options Options) (*Store, error) {
	options, err := options.filled()
	if err != nil {
		return nil, fmt.Errorf("redisstore: new: %w", err)
	}
	s := newStore(transport, options)
	ctx, cancel := context.WithTimeout(context.Background(), max(options.Timeout, 5*time.Second))
	defer cancel()
	if err := s.checkServers(ctx); err != nil {
		return nil, fmt.Errorf("redisstore: new: %w", err)
	}
	return s, nil
}

// newStore returns a Store that has asked nobody anything.
func newStore(transport Transport, options Options) *Store {
	s := &Store{
		transport: transport,
		options:   options,
		programs:  newPrograms(),
		plans:     new(sluice.Prepared[*prepared]),
		keyer:     keyer{prefix: options.Prefix, secret: options.Secret},
		cluster:   transport.Cluster(),
		clock:     now,
		swapping:  newTurns(),
	}
	s.leads = s.lead
	s.workers.pending = &s.pending
	s.lines.init()
	return s
}

// Open connects to a server and returns a Store that closes the connection
// with itself. In option it switches off what a Store has no use for.
func Open(option rueidis.ClientOption, options Options) (*Store, error) {
	option.DisableCache, option.DisableRetry = true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("redisstore: open: %w", err)
	}
	s, err := New(client, options)
	if err != nil {
		client.Close()
		return nil, err
	}
	s.end = client.Close
	return s, nil
}

// Close waits for requests on their way, no longer than Options.Timeout, and
// ends the Store. Requests after it return [sluice.ErrClosed].
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.mu.Unlock()
	s.pending.Wait()
	s.workers.end()
	if first && s.end != nil {
		s.end()
	}
	return nil
}

// admit counts a request in. Who calls it counts it out with s.pending.Done,
// unless there is an error.
func (s *Store) admit(ctx context.Context) error {
	err := ctx.Err()
	switch {
	case err != nil:
	case s.left.Load() >= mostLeft:
		err = ErrCrowded
	case !s.enter():
		err = sluice.ErrClosed
	default:
		return nil
	}
	return &sluice.NotSentError{Err: err}
}

// enter counts something in that Close waits for, unless the store is closed.
func (s *Store) enter() bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return false
	}
	s.pending.Add(1)
	return true
}

// work has a worker do something for who is counted in still.
func (s *Store) work(do func()) {
	s.pending.Add(1)
	s.workers.do(do)
}

// Take decides one request. It blocks for one round trip, for no longer than
// ctx or Options.Timeout; where a limit was changed or its rule has just started,
// for two or more; over keys in different slots of a Cluster, for two and one more
// for each slot. Where the server hangs and too many callers have left it, requests
// end at once with [ErrCrowded], unsent.
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	if err := s.admit(ctx); err != nil {
		return sluice.Decision{}, wrap(&req, err)
	}
	defer s.pending.Done()
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
	return s.alone(ctx, *req)
}

// alone decides a request by a call of its own. The request is a copy, so that
// none that stands in line needs memory of its own.
func (s *Store) alone(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	within, c := s.bound(), s.newCall(&req)
	switch {
	case ctx.Done() == nil:
		return s.direct(within, c, &req) //nolint:contextcheck // ctx never ends
	case req.Slot != nil || rareOp(req.Op) || s.crosses(c) || s.swaps(c):
		return s.apart(ctx, within, &req, func(ctx context.Context) (sluice.Decision, error) { return s.direct(ctx, c, &req) })
	}
	return s.once(ctx, within, c, &req)
}

// direct decides req by c, or by calls to several slots. The context is one of
// the store's own.
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
