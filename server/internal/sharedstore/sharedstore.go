// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"cmp"
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
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/remote"
	"github.com/sluicegate/sluice/server/internal/fleet"
)

// Defaults of the intervals in [Options].
const (
	DefaultEvery = time.Second
	DefaultBeat  = 10 * time.Second
)

const (
	heartbeatTTL     = 3 * DefaultBeat // after it a silent node is no longer counted, even with a shorter Beat
	heartbeatTimeout = time.Second
	lastTimeout      = time.Second      // to return leased units at the end
	logEvery         = 10 * time.Second // between two lines about the store
)

// Options are the options of [Open]. Target, Config, Log, WatchLocal and Secret are required.
type Options struct {
	Target *redisurl.URL
	Prefix string // of the names of keys; empty: the target's, or the default
	// Config returns the active configuration, which decides leases and failure policies.
	Config func() *config.Config
	Log    *slog.Logger

	// Every is the interval between two checks of the store, Beat that between two heartbeats,
	// and Fleet that between two polls of the fleet's records. Zero means their defaults.
	Every, Beat, Fleet time.Duration

	// WatchLocal counts the states kept while the store is unavailable.
	WatchLocal func(stats func() memstore.Stats) error
	// Secret receives the secret by which all nodes hash keys.
	Secret func([32]byte)
}

// Store is a store shared with other processes. Its goroutine sends heartbeats, shares a secret
// with the other nodes and writes the log; Close ends it. It is safe for concurrent use.
type Store struct {
	o      Options
	target *redisurl.URL
	log    *slog.Logger
	redis  *rueidisstore.Store
	store  *remote.Store // decides requests

	id      string      // of this node
	fleet   *fleet.Conn // for data other than decisions
	joined  sync.WaitGroup
	leaving func(context.Context) error // nil: nobody is notified
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

// Open opens the store. If it cannot be reached, Open logs that and the store retries in the
// background: a node must start in an outage, too. A lasting failure, such as a refused
// password, is an error.
func Open(o Options) (*Store, error) {
	o.Every, o.Beat = cmp.Or(o.Every, DefaultEvery), cmp.Or(o.Beat, DefaultBeat)
	s := &Store{
		o: o, target: o.Target, log: o.Log, id: rand.Text()[:16],
		change: make(chan struct{}, 1), errors: make(chan error, 1), ended: make(chan struct{}),
	}
	var err error
	s.redis, err = rueidisstore.Open(context.Background(), s.target.Full(), redisstore.Options{
		Logger: s.log, Prefix: o.Prefix, Timeout: s.target.Timeout + bounds.DefaultLateTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	err = s.wrap()
	if err == nil {
		s.fleet, err = s.connectFleet()
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
func (s *Store) connectFleet() (*fleet.Conn, error) {
	option, err := rueidisstore.ClientOption(s.target)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	secret, err := rueidisstore.Secret(s.target)
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return fleet.New(fleet.Options{
		Target: s.target, Client: option, Secret: secret, Connect: rueidisstore.Connect, Prefix: s.o.Prefix,
		Node: fleet.Node{ID: s.id, Name: HostName()}, Log: s.log, Every: s.o.Fleet,
	})
}

// Join starts the exchange with the other nodes. All parts of the fleet's Conn must be
// registered before.
func (s *Store) Join() {
	s.joined.Go(func() { s.fleet.Run(s.life) })
}

// HostName returns this machine's name.
func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown" // the node's id identifies it
	}
	return name
}

// wrap wraps the store with deadlines, failure policies and leases.
func (s *Store) wrap() (err error) {
	local := memstore.New(memstore.Options{MaxKeys: bounds.DefaultMaxOwed})
	if err := s.o.WatchLocal(local.Stats); err != nil {
		return err
	}
	s.store, err = remote.Wrap(s.redis, remote.Options{
		PolicyOf:     func(p *sluice.Plan) sluice.Failure { return failureOf(s.o.Config(), p.Scope()) },
		SlotPolicyOf: func(scope string) sluice.Failure { return failureOf(s.o.Config(), scope) }, Timeout: s.target.Timeout,
		Local:    local,
		Nodes:    s.divisor,
		OnChange: func(error) { s.changed() },
		Lease:    func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return leaseOf(s.o.Config(), p) },
	})
	return err
}

// Decisions returns the store that decides requests.
func (s *Store) Decisions() *remote.Store { return s.store }

// Target returns the address of the store.
func (s *Store) Target() *redisurl.URL { return s.target }

// Fleet returns the connection for data other than decisions.
func (s *Store) Fleet() *fleet.Conn { return s.fleet }

// OnLeave sets the function by which [Store.Close] notifies the other nodes. It must be called
// before Join.
func (s *Store) OnLeave(notify func(context.Context) error) { s.leaving = notify }

// OnConfirm sets the function that reports whether this node has all records of the others. It
// must be called before Join.
func (s *Store) OnConfirm(confirmed func() bool) { s.confirmed = confirmed }

func (s *Store) attr() slog.Attr { return slog.String("store", s.target.String()) }

// Live returns the last known number of live nodes, at least 1.
func (s *Store) Live() int64 { return max(s.nodes.Load(), 1) }

// divisor returns by how many nodes limits are divided while the store is unavailable.
func (s *Store) divisor() int {
	return int(max(s.Live(), s.most.Load(), s.o.Config().Nodes))
}

// Up reports whether requests go to the store.
func (s *Store) Up() bool { return s.redis.Err() == nil && s.store.Err() == nil }

// Close returns leased units, ends the goroutine and closes the store. No request may be in
// progress.
func (s *Store) Close() error {
	s.goAway(s.life)
	s.cancel()
	<-s.ended
	s.joined.Wait()
	return errors.Join(s.store.Close(), s.redis.Close())
}

// goAway notifies the other nodes, within lastTimeout, that this one ends.
func (s *Store) goAway(ctx context.Context) {
	if s.leaving == nil || !s.Up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	_ = s.leaving(ctx) // otherwise they notice some seconds later
}

// giveBack returns leased units within lastTimeout. The store counts those that it cannot
// return until they expire there, which errs to denying.
func (s *Store) giveBack(ctx context.Context) {
	if !s.Up() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lastTimeout)
	defer cancel()
	if err := s.store.Return(ctx); err != nil {
		s.log.Warn("leased units could not be returned to the store; they count as spent until they expire", s.attr(), slog.Any("error", err))
	}
}

// Ready returns the state of the store, and false if all clients are refused.
func (s *Store) Ready() (line string, ok bool) {
	line, ok = "store: up", true
	if !s.Up() {
		line, ok = "store: down; "+s.Meanwhile(), !refusesAll(s.o.Config())
		if why := s.cause(); why != "" {
			line += "; last failure: " + why
		}
		if what, since := s.NotApplied(); what != "" {
			line += "\n" + what + " not applied since " + since.Format(time.RFC3339)
		}
	}
	if s.confirmed != nil && !s.confirmed() {
		line += "\noverrides: those of this node; other nodes may have others, and changes for all nodes are refused"
		if err := s.fleet.Err(); err != nil {
			line += "; last failure: " + err.Error()
		}
	}
	return line, ok
}

// NotApplied returns the limits not applied to requests that pass while the store is
// unavailable, and since when; "" if none.
func (s *Store) NotApplied() (what string, since time.Time) {
	since, away := s.awaySince()
	if what = notApplied(s.o.Config()); !away || what == "" {
		return "", time.Time{}
	}
	return what, since
}

// awaySince returns since when the store is unavailable, if it is: the time when that was
// first seen.
func (s *Store) awaySince() (since time.Time, away bool) {
	if s.Up() {
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

// Meanwhile returns how requests are answered while the store is unavailable.
func (s *Store) Meanwhile() string {
	switch policy, same := oneFailure(s.o.Config()); {
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
func (s *Store) changed() {
	s.awaySince()
	select {
	case s.change <- struct{}{}:
	default: // run looks at intervals anyway
	}
}

// Report logs errors of requests. It skips that the store is unavailable, which is logged
// once.
func (s *Store) Report(_ context.Context, err error) {
	if _, away := errors.AsType[*remote.UnavailableError](err); away {
		return
	}
	select {
	case s.errors <- err:
	default: // one is pending already
	}
}
