// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/sluicegate/sluice"
)

// Store is a [sluice.Store] and [sluice.SlotStore] on a Redis or Valkey server:
// a single one, the master that a Sentinel names, or a Cluster. Time is the
// server's. A Store is safe for concurrent use and ends with [Store.Close].
//
// An error other than a [*sluice.RequestError] means that the outcome is not
// known: a script that was on its way may have run. It is not sent again.
type Store struct {
	client   rueidis.Client
	owned    bool // Close closes the client
	options  Options
	programs *programs
	keyer    keyer
	plans    *sluice.Prepared[*prepared]
	series   allSeries
	writers  writers
	swapping *turns
	cluster  bool
	clock    func() time.Time // this machine's: it only guesses calendar windows
	lines    lines
	spans    spans

	gathering gathering
	left      left

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
	options, err := options.filled()
	if err != nil {
		return nil, fmt.Errorf("redisstore: new: %w", err)
	}
	s := &Store{
		client:   client,
		options:  options,
		programs: newPrograms(),
		plans:    new(sluice.Prepared[*prepared]),
		keyer:    keyer{prefix: options.Prefix, secret: options.Secret},
		cluster:  client.Mode() == rueidis.ClientModeCluster,
		clock:    now,
		swapping: newTurns(),
	}
	s.lines.init()
	ctx, cancel := context.WithTimeout(context.Background(), max(options.Timeout, 5*time.Second))
	defer cancel()
	if err := s.checkServers(ctx); err != nil {
		return nil, fmt.Errorf("redisstore: new: %w", err)
	}
	return s, nil
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
	s.owned = true
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
	if first && s.owned {
		s.client.Close()
	}
	return nil
}

// enter counts a request in. Who calls it counts it out with s.pending.Done,
// unless there is an error.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.left.crowded() {
		return ErrCrowded
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	if s.closed {
		return sluice.ErrClosed
	}
	s.pending.Add(1)
	return nil
}

// Take decides one request. It blocks for one round trip, for no longer than
// ctx or Options.Timeout; where a limit was changed or its rule has just started,
// for two or more; over keys in different slots of a Cluster, for two and one more
// for each slot. If ctx ends before the request is sent nothing
// is charged. Where the server hangs and too many callers have left it, requests
// end at once with [ErrCrowded], unsent.
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil {
		return sluice.Decision{}, err
	}
	if err := s.enter(ctx); err != nil {
		return sluice.Decision{}, wrap(&req, err)
	}
	defer s.pending.Done()
	d, err := s.decide(ctx, &req)
	if err != nil {
		return sluice.Decision{}, wrap(&req, err)
	}
	return d, nil
}

func wrap(req *sluice.Request, err error) error {
	return fmt.Errorf("redisstore: %v of scope %q: %w", req.Op, req.Plan.Scope(), err)
}

// decide decides a valid request.
func (s *Store) decide(ctx context.Context, req *sluice.Request) (sluice.Decision, error) {
	if len(req.More) == 0 && req.Slot == nil && !s.options.NoCoalescing && s.inject == nil {
		return s.coalesce(ctx, req)
	}
	return s.alone(ctx, *req)
}

// direct decides req by c, or by calls to several slots.
func (s *Store) direct(ctx context.Context, c *call, req *sluice.Request) (sluice.Decision, error) {
	if req.Slot != nil {
		return s.slotted(ctx, c, req)
	}
	if s.cluster && !oneSlot(c.tags) {
		d, err := s.across(ctx, req, c.tags)
		if err == nil {
			c.now = decidedAt(&d)
			c.noteDecided()
		}
		return d, err
	}
	j := c.ask(req)
	err := s.run(ctx, c)
	return j.decision, err
}
