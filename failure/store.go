// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// Store is a [sluice.Store] that has an answer whatever the store behind it
// does. It is a [sluice.SlotStore] too, if that is one. It is safe for
// concurrent use.
type Store struct {
	store    sluice.Store
	slots    sluice.SlotStore // store, nil if it keeps none
	opts     Options
	breaker  breaker
	local    local
	ledger   ledger
	releases releases
	keeper   keeper
	inFlight atomic.Int64
	used     atomic.Bool // whether local may hold states
	counters counters
	downAt   time.Time // guarded by the breaker's lock
	cause    atomic.Pointer[error]
	probe    *sluice.Plan
}

var (
	_ sluice.Store     = (*Store)(nil)
	_ sluice.SlotStore = (*Store)(nil)
)

// Wrap returns a Store in front of store. It has a goroutine only while store
// is away or is owed units; Close ends it.
func Wrap(store sluice.Store, opts Options) (*Store, error) {
	if store == nil {
		return nil, errors.New("failure: wrap: store is nil")
	}
	slots, ok := opts.Local.(sluice.SlotStore)
	if !ok {
		return nil, errors.New("failure: wrap: Local is no store with slots; make one, such as memstore.New(memstore.Options{MaxKeys: failure.DefaultMaxKeys})")
	}
	if !opts.Policy.Valid() {
		return nil, fmt.Errorf("failure: wrap: %v is no policy; use FailOpen, FailLocal or FailClosed", opts.Policy)
	}
	probe, err := sluice.Compile("sluice.failure.probe", sluice.PerSecond(1000))
	if err != nil {
		return nil, err
	}
	opts = opts.filled()
	s := &Store{
		store: store, opts: opts, probe: probe,
		local:  local{store: opts.Local, slots: slots, nodes: opts.Nodes, shares: new(sluice.Prepared[share])},
		ledger: ledger{most: opts.MaxKeys, owed: make(map[debtor]owed)},
		keeper: newKeeper(),
	}
	s.slots, _ = store.(sluice.SlotStore)
	s.releases.most = opts.MaxKeys
	s.breaker.failures = opts.Failures
	s.breaker.changed = s.changed
	return s, nil
}

// changed follows the breaker, under its lock.
func (s *Store) changed(to state, err error) {
	var h Health
	if to == open {
		s.cause.Store(&err)
	}
	switch {
	case to == open && s.downAt.IsZero():
		s.downAt = time.Now()
		s.counters.outages.Add(1)
		h = Health{Err: err}
	case to == closed:
		s.cause.Store(nil)
		h = Health{Healthy: true, Down: time.Since(s.downAt)}
		s.downAt = time.Time{}
	}
	if to == open {
		s.wake()
	}
	if s.opts.OnChange != nil && (h.Healthy || h.Err != nil) {
		s.opts.OnChange(h)
	}
}

// Take decides req by the store or, if that does not answer in time, by the
// policy of its plans. It returns when the deadline has passed at the latest.
// The error is a [*sluice.RequestError], an [*UnavailableError], the context's
// if it was cancelled, or [sluice.ErrClosed].
func (s *Store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := s.check(ctx, &req); err != nil {
		return sluice.Decision{}, err
	}
	if m := marked(&req); m != 0 {
		return s.refund(ctx, &req, m), nil
	}
	c := s.newCall([]sluice.Request{req}, true)
	sent, err := s.send(ctx, c)
	d, err := s.finish(ctx, c, 0, &req, sent, err)
	c.tell([]bool{err == nil && d.Allowed})
	return d, err
}

// TakeBatch decides reqs as Take does, those that the store can decide in one
// call. Its error is that of the context, or [sluice.ErrClosed], or says that
// out has another length than reqs.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if len(out) != len(reqs) {
		return fmt.Errorf("failure: take batch: %d results for %d requests; pass as many", len(out), len(reqs))
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	var asked []sluice.Request
	var index []int
	for i := range reqs {
		out[i] = sluice.Result{Err: s.check(ctx, &reqs[i])}
		if out[i].Err != nil {
			continue
		}
		if m := marked(&reqs[i]); m != 0 {
			out[i].Decision = s.refund(ctx, &reqs[i], m)
			continue
		}
		asked, index = append(asked, reqs[i]), append(index, i)
	}
	if len(asked) == 0 {
		return nil
	}
	c := s.newCall(asked, false)
	sent, err := s.send(ctx, c)
	passed := make([]bool, len(asked))
	for j, i := range index {
		out[i].Decision, out[i].Err = s.finish(ctx, c, j, &reqs[i], sent, err)
		passed[j] = out[i].Err == nil && out[i].Decision.Allowed
	}
	c.tell(passed)
	return nil
}

// tell says what became of the requests of a call: it is heard if their answer
// comes late.
func (c *call) tell(passed []bool) { c.fates <- passed }

// ended returns why nothing is decided any more.
func (s *Store) ended(ctx context.Context) error {
	if s.keeper.ended() {
		return sluice.ErrClosed
	}
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return fmt.Errorf("failure: %w", err)
	}
	return nil
}

func (s *Store) check(ctx context.Context, req *sluice.Request) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	if err := req.Validate(); err != nil {
		return err
	}
	switch {
	case req.Slot != nil && s.slots == nil:
		return sluice.ErrNoSlots
	case req.Slot != nil:
		s.releases.forget(&req.Slot.SlotRequest)
	}
	if req.Op == sluice.OpReset && s.used.Load() {
		return s.forget(ctx, req)
	}
	return nil
}

// finish returns the store's answer to the i-th request of c or, if there is
// none, that of the policy.
func (s *Store) finish(ctx context.Context, c *call, i int, req *sluice.Request, sent bool, err error) (sluice.Decision, error) {
	if err == nil {
		if err = c.err; err == nil {
			err = c.results[i].Err
		}
		if err == nil {
			copy(req.Outcomes.All(), c.reqs[i].Outcomes.All())
			if req.Slot != nil {
				req.Slot.Decision = c.reqs[i].Slot.Decision
			}
			s.counters.decided.Add(1)
			return c.results[i].Decision, nil
		}
		if storeError(err) == nil {
			return sluice.Decision{}, err
		}
	}
	if cancelled := ctx.Err(); errors.Is(cancelled, context.Canceled) {
		if req.Slot != nil {
			s.undo(&req.Slot.SlotRequest, sent)
		}
		return sluice.Decision{}, fmt.Errorf("failure: %v %q: %w", req.Op, req.Plan.Scope(), cancelled)
	}
	if req.Slot != nil {
		return s.degradeWithSlot(ctx, *req, sent, err)
	}
	return s.degrade(ctx, req, sent, err)
}

// Close ends the Store's goroutine and waits for it, for Timeout at most. Units that are still owed
// are dropped, and slots that could not be released expire. Calls in flight end when the store returns; from now on the
// answer is [sluice.ErrClosed]. It always returns nil, and may be called again.
func (s *Store) Close() error {
	s.keeper.close()
	for _, req := range s.ledger.take(math.MaxInt, time.Now()) {
		s.counters.dropped.Add(uint64(req.Cost))
	}
	return nil
}

// keeper owns the goroutine that brings the store back.
type keeper struct {
	mu      sync.Mutex
	running bool
	nudged  chan struct{}
	closing chan struct{}
	over    sync.Once
	group   sync.WaitGroup
}

func newKeeper() keeper {
	return keeper{nudged: make(chan struct{}, 1), closing: make(chan struct{})}
}
