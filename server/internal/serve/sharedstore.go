// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

const (
	heartbeatEvery   = 10 * time.Second
	heartbeatTTL     = 3 * heartbeatEvery // after it a silent node is no longer counted, even with shorter Intervals
	heartbeatTimeout = time.Second
	lastTimeout      = time.Second      // to return leased units at the end
	logEvery         = 10 * time.Second // between two lines about the store
)

// sharedStore is a store shared with other processes, wrapped so that this one keeps answering
// while it is unavailable. Its goroutine sends heartbeats, shares a secret with the other
// nodes and writes the log; Close ends it.
type sharedStore struct {
	target *redisurl.URL
	of     *runtime // decides leases and failure policies
	log    *slog.Logger
	every  Intervals
	redis  *rueidisstore.Store
	store  *remote.Store // decides requests

	id      string      // of this node
	fleet   *fleet.Conn // for data other than decisions
	joined  sync.WaitGroup
	leaving func(context.Context) error // notifies the other nodes; nil without peers
	// confirmed reports whether this node has all records of the others; nil before they are
	// shared.
	confirmed func() bool
	census    census       // used by run
	most      atomic.Int64 // divisor of limits, from the census
	nodes     atomic.Int64 // last known number of live nodes; 0: the store was never reached
	away      atomic.Int64 // when the store became unavailable, ns since the epoch; 0: it is available
	fault     string       // last reported fault of the shared secret; used by run
	change    chan struct{}
	errors    chan error
	life      context.Context //nolint:containedctx // of its goroutines: cancel ends it
	cancel    context.CancelFunc
	ended     chan struct{}
}

// openShared opens the store. If it cannot be reached, openShared logs that and the store
// retries in the background: a node must start in an outage, too. A lasting failure, such as a
// refused password, is an error. Prefix begins the names of keys; if empty, it is the target's
// or the default.
func openShared(target *redisurl.URL, prefix string, of *runtime, every Intervals) (*sharedStore, error) {
	s := &sharedStore{
		target: target, of: of, log: of.log, every: every, id: rand.Text()[:16],
		change: make(chan struct{}, 1), errors: make(chan error, 1), ended: make(chan struct{}),
	}
	var err error
	s.redis, err = rueidisstore.Open(context.Background(), target.Full(), redisstore.Options{
		Logger: s.log, Prefix: prefix, Timeout: target.Timeout + bounds.DefaultLateTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	err = s.wrap()
	if err == nil {
		s.fleet, err = s.connectFleet(prefix)
	}
	if err != nil {
		return nil, errors.Join(err, s.redis.Close())
	}
	s.life, s.cancel = context.WithCancel(context.Background())
	go s.run(s.life)
	return s, nil
}

// connectFleet returns the connection for what nodes share. It reads the files that the target
// names and does not connect.
func (s *sharedStore) connectFleet(prefix string) (*fleet.Conn, error) {
	option, err := rueidisstore.ClientOption(s.target)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	secret, err := rueidisstore.Secret(s.target)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return fleet.New(fleet.Options{
		Target: s.target, Client: option, Secret: secret, Connect: rueidisstore.Connect, Prefix: prefix,
		Node: fleet.Node{ID: s.id, Name: hostName()}, Log: s.log, Every: s.every.Fleet,
	})
}

// join starts the exchange with the other nodes. All parts of the fleet's Conn must be
// registered before.
func (s *sharedStore) join() {
	s.joined.Go(func() { s.fleet.Run(s.life) })
}

// hostName returns this machine's name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown" // the node's id identifies it
	}
	return name
}

// wrap wraps the store with deadlines, failure policies and leases.
func (s *sharedStore) wrap() (err error) {
	local := memstore.New(memstore.Options{MaxKeys: bounds.DefaultMaxOwed})
	if err := s.of.counts.WatchMemory(local.Stats, "local"); err != nil {
		return err
	}
	s.store, err = remote.Wrap(s.redis, remote.Options{
		PolicyOf:     func(p *sluice.Plan) sluice.Failure { return s.of.failureOf(p.Scope()) },
		SlotPolicyOf: s.of.failureOf, Timeout: s.target.Timeout,
		Local:    local,
		Nodes:    s.divisor,
		OnChange: func(error) { s.changed() },
		Lease:    s.of.leaseOf,
	})
	return err
}

func (s *sharedStore) attr() slog.Attr { return slog.String("store", s.target.String()) }

// live returns the last known number of live nodes, at least 1.
func (s *sharedStore) live() int64 { return max(s.nodes.Load(), 1) }

// divisor returns by how many nodes limits are divided while the store is unavailable.
func (s *sharedStore) divisor() int {
	c := s.of.active()
	return int(max(s.live(), s.most.Load(), c.Nodes))
}

// up reports whether requests go to the store.
func (s *sharedStore) up() bool { return s.redis.Err() == nil && s.store.Err() == nil }

// Close returns leased units, ends the goroutine and closes the store. No request may be in
// progress.
func (s *sharedStore) Close() error {
	s.goAway(s.life)
	s.cancel()
	<-s.ended
	s.joined.Wait()
	return errors.Join(s.store.Close(), s.redis.Close())
}

// giveBack returns leased units within lastTimeout. The store counts those that it cannot
// return until they expire there, which errs to denying.
func (s *sharedStore) giveBack(ctx context.Context) {
	if !s.up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	if err := s.store.Return(ctx); err != nil {
		s.log.Warn("units on lease could not be given back, and count until they are forgotten", s.attr(), slog.Any("error", err))
	}
}

// ready returns the state of the store, and false if all clients are refused.
func (s *sharedStore) ready() (line string, ok bool) {
	line, ok = "store: up", true
	if !s.up() {
		line, ok = "store: down; "+s.meanwhile(), !s.of.refusesAll()
		if why := s.cause(); why != "" {
			line += "; last failure: " + why
		}
		if what, since := s.notApplied(); what != "" {
			line += "\n" + what + " not applied since " + since.Format(time.RFC3339)
		}
	}
	if s.confirmed != nil && !s.confirmed() {
		line += "\noverrides: as this node has them; other nodes may have others, and changes for all are refused"
		if err := s.fleet.Err(); err != nil {
			line += "; last failure: " + err.Error()
		}
	}
	return line, ok
}

// notApplied returns the limits not applied to requests that pass while the store is
// unavailable, and since when; "" if none.
func (s *sharedStore) notApplied() (what string, since time.Time) {
	since, away := s.awaySince()
	if what = s.of.notApplied(); !away || what == "" {
		return "", time.Time{}
	}
	return what, since
}

// awaySince returns since when the store is unavailable, if it is: the time when that was
// first seen.
func (s *sharedStore) awaySince() (since time.Time, away bool) {
	if s.up() {
		s.away.Store(0)
		return since, false
	}
	at := time.Now().UnixNano()
	if !s.away.CompareAndSwap(0, at) {
		if seen := s.away.Load(); seen != 0 {
			at = seen
		}
	}
	return time.Unix(0, at).UTC(), true
}

// meanwhile returns how requests are answered while the store is unavailable.
func (s *sharedStore) meanwhile() string {
	switch policy, same := s.of.oneFailure(); {
	case !same:
		return "each rule applies its own failure policy"
	case policy == sluice.FailOpen:
		return "requests are let through"
	case policy == sluice.FailLocal:
		return fmt.Sprintf("each node decides with its share of the limit (nodes: %d)", s.divisor())
	default:
		return "requests are refused"
	}
}

// changed is called when the store becomes unavailable or available.
func (s *sharedStore) changed() {
	s.awaySince()
	select {
	case s.change <- struct{}{}:
	default: // run looks at intervals anyway
	}
}

// report logs errors of requests. It skips that the store is unavailable, which is logged
// once.
func (s *sharedStore) report(_ context.Context, err error) {
	if _, away := errors.AsType[*remote.UnavailableError](err); away {
		return
	}
	select {
	case s.errors <- err:
	default: // one is pending already
	}
}
