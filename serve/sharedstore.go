// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/remote"
)

const (
	connectEvery     = time.Second        // while there is no connection yet
	heartbeatEvery   = 10 * time.Second   // between two signs of life of a node
	heartbeatTTL     = 3 * heartbeatEvery // after which a silent node is no longer counted
	heartbeatTimeout = time.Second
	lastTimeout      = time.Second      // to give back what is on lease, at the end
	logEvery         = 10 * time.Second // between two lines about the store
)

// sharedStore is a store that other processes use too, wrapped so that this one
// stays calm when it dies. It has one goroutine, which Close ends: it connects
// if the store was away at the start, tells the others that this node lives,
// and writes what there is to log.
type sharedStore struct {
	target  *redisurl.Target
	prefix  string   // of keys, if the target names none; empty: the default
	of      *runtime // whose rules say what is leased, and what happens in an outage
	log     *slog.Logger
	redis   atomic.Pointer[redisstore.Store] // nil until connected
	refusal atomic.Pointer[error]            // why it was not, last
	store   *remote.Store                    // what decides

	id     string       // of this node
	nodes  atomic.Int64 // last known number of live ones
	change chan struct{}
	errors chan error
	cancel context.CancelFunc
	ended  chan struct{}
}

// openShared connects to the store. Where it cannot be reached that is logged,
// and tried again in the background: a node must come up in an outage too. What
// cannot pass by itself, such as a refused password, is an error.
func openShared(target *redisurl.Target, prefix string, of *runtime) (*sharedStore, error) {
	s := &sharedStore{
		target: target, prefix: prefix, of: of, log: of.log, id: rand.Text()[:16],
		change: make(chan struct{}, 1), errors: make(chan error, 1), ended: make(chan struct{}),
	}
	s.nodes.Store(1)
	if err := s.connect(); err != nil {
		if !redisurl.Temporary(err) {
			return nil, fmt.Errorf("store %v: %w", target, err)
		}
		s.log.Warn("the store cannot be reached; it is tried again every second", s.attr(), slog.Any("error", err),
			slog.String("meanwhile", s.meanwhile()))
	}
	if err := s.wrap(); err != nil {
		return nil, errors.Join(err, s.disconnect())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx)
	return s, nil
}

// wrap puts around the store what keeps this process calm and the servers idle.
func (s *sharedStore) wrap() (err error) {
	local := memstore.New(memstore.Options{MaxKeys: remote.DefaultMaxOwed})
	if err := s.of.counts.WatchMemory(local.Stats, "local"); err != nil {
		return err
	}
	s.store, err = remote.Wrap(lazyStore{s}, remote.Options{
		PolicyOf:     func(p *sluice.Plan) sluice.Failure { return s.of.failureOf(p.Scope()) },
		SlotPolicyOf: s.of.failureOf, Timeout: s.target.Timeout(),
		Local:    local,
		Nodes:    func() int { return int(s.nodes.Load()) },
		OnChange: func(remote.Health) { s.changed() },
		Lease:    s.of.leaseOf,
	})
	return err
}

func (s *sharedStore) attr() slog.Attr { return slog.String("store", s.target.String()) }

func (s *sharedStore) connect() error {
	r, err := s.target.Open(redisstore.Options{
		Logger: s.log, Prefix: s.prefix, Timeout: s.target.Timeout() + remote.DefaultLateTimeout,
	})
	if err != nil {
		s.refusal.Store(&err)
		return err
	}
	s.redis.Store(r)
	return nil
}

func (s *sharedStore) disconnect() error {
	if r := s.redis.Load(); r != nil {
		return r.Close()
	}
	return nil
}

// Close ends the goroutine, which gives back what is on lease, then the store.
// There must be no requests any more.
func (s *sharedStore) Close() error {
	s.cancel()
	<-s.ended
	return errors.Join(s.store.Close(), s.disconnect())
}

// giveBack gives back what is on lease, within lastTimeout. What it cannot give
// back counts in the store until it is forgotten there, which errs to denying.
func (s *sharedStore) giveBack(ctx context.Context) {
	if s.redis.Load() == nil || !s.store.Healthy() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	if err := s.store.Return(ctx); err != nil {
		s.log.Warn("units on lease could not be given back, and count until they are forgotten", s.attr(), slog.Any("error", err))
	}
}

// ready says how the store is, and whether any requests can be answered with it
// as it is: those under a policy that is closed cannot.
func (s *sharedStore) ready() (line string, ok bool) {
	if s.redis.Load() != nil && s.store.Healthy() {
		return "store: up", true
	}
	line = "store: down; " + s.meanwhile()
	if why := s.cause(); why != "" {
		line += "; last failure: " + why
	}
	return line, !s.of.refusesAll()
}

// meanwhile says what becomes of requests while the store is away.
func (s *sharedStore) meanwhile() string {
	switch policy, same := s.of.oneFailure(); {
	case !same:
		return "each rule goes on as its failure says"
	case policy == sluice.FailOpen:
		return "requests are let through"
	case policy == sluice.FailLocal:
		return "each node decides with its share of the limit"
	default:
		return "requests are refused"
	}
}

// changed is called when the store is given up and when it is back.
func (s *sharedStore) changed() {
	select {
	case s.change <- struct{}{}:
	default: // it is looked at anyway
	}
}

// report takes errors of requests. That the store is away is told once, not
// for each of them.
func (s *sharedStore) report(_ *http.Request, err error) {
	if _, away := errors.AsType[*remote.UnavailableError](err); away {
		return
	}
	select {
	case s.errors <- err:
	default: // one is waiting already
	}
}

// lazyStore is the store that may not be connected yet.
type lazyStore struct{ *sharedStore }

var errNotConnected = &sluice.NotSentError{Err: errors.New("there is no connection yet")}

func (l lazyStore) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if r := l.redis.Load(); r != nil {
		return r.Take(ctx, req)
	}
	return sluice.Decision{}, errNotConnected
}

func (l lazyStore) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if r := l.redis.Load(); r != nil {
		return r.TakeBatch(ctx, reqs, out)
	}
	return errNotConnected
}

// Slot is of [sluice.SlotStore].
func (l lazyStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if r := l.redis.Load(); r != nil {
		return r.Slot(ctx, req)
	}
	return sluice.SlotDecision{}, errNotConnected
}

// Explain is of [sluice.ExplainStore].
func (l lazyStore) Explain(ctx context.Context, req sluice.Request) (sluice.Explanation, error) {
	if r := l.redis.Load(); r != nil {
		return r.Explain(ctx, req)
	}
	return sluice.Explanation{}, errNotConnected
}

// ExplainSlot is of [sluice.ExplainStore].
func (l lazyStore) ExplainSlot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if r := l.redis.Load(); r != nil {
		return r.ExplainSlot(ctx, req)
	}
	return sluice.SlotDecision{}, errNotConnected
}
