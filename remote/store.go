// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/deadline"
	"github.com/sluicegate/sluice/internal/stores"
)

// Store is a [sluice.Store] that answers even if the store that it wraps fails. It is a
// [sluice.SlotStore] if the wrapped store is one. It is safe for concurrent use. Its methods
// return an [*UnavailableError] if the failure policy refuses, and otherwise the errors of the
// wrapped store.
type Store struct {
	store     sluice.Store
	slots     sluice.SlotStore // store, nil if it keeps none
	explains  sluice.Store     // store, before Detach
	opts      Options
	deadlines deadline.Shared
	near      *near
	breaker   breaker
	local     local
	debts     debts
	settles   settles
	releases  releases
	recovery  recovery
	inFlight  atomic.Int64
	counters  counters
	down      bool // since an outage was reported; guarded by the breaker's lock
	cause     atomic.Pointer[error]
	probe     *sluice.Plan
}

var (
	_ sluice.BatchStore = (*Store)(nil)
	_ sluice.SlotStore  = (*Store)(nil)
)

// Wrap returns a Store that wraps store. It has a goroutine only while store is
// unavailable or is owed units; Close ends it. It fails for invalid options.
func Wrap(store sluice.Store, opts Options) (*Store, error) {
	if store == nil {
		return nil, errors.New("remote: wrap: store is nil")
	}
	slots, ok := opts.Local.(sluice.SlotStore)
	if opts.Local != nil && !ok {
		return nil, errors.New("remote: wrap: Local keeps no slots; make one, such as memstore.New(memstore.Options{MaxKeys: 1 << 16})")
	}
	if opts.Policy > sluice.FailClosed {
		return nil, fmt.Errorf("remote: wrap: %v is no policy; use FailOpen, FailLocal or FailClosed", opts.Policy)
	}
	if opts.Policy == sluice.FailLocal && opts.Local == nil {
		return nil, errors.New("remote: wrap: Policy is FailLocal and there is no Local to decide; make one, such as memstore.New(memstore.Options{MaxKeys: 1 << 16})")
	}
	probe, err := sluice.Compile("sluice.failure.probe", sluice.PerSecond(1000))
	if err != nil {
		return nil, err
	}
	opts = opts.filled()
	s := &Store{
		store: store, explains: store, opts: opts, probe: probe,
		local:    local{store: opts.Local, slots: slots, nodes: opts.Nodes, shares: new(compiled.Prepared[share])},
		debts:    debts{most: opts.MaxOwed, owed: make(map[debtor]owed)},
		recovery: newRecovery(),
	}
	s.slots, _ = store.(sluice.SlotStore)
	if opts.Detach {
		d := &detached{store: store, slots: s.slots, late: opts.LateTimeout}
		if s.store = d; s.slots != nil {
			s.slots = d
		}
	}
	s.near = newNear(opts, s)
	s.settles = settles{most: opts.MaxOwed, list: make(map[settled]*unsettled)}
	s.releases = releases{most: opts.MaxOwed, list: make(map[slotOwner]*unreleased)}
	s.breaker.failures = opts.Failures
	s.breaker.changed = s.changed
	return s, nil
}

// changed records a change of the breaker, under its lock.
func (s *Store) changed(to state, err error) {
	report := s.opts.OnChange
	if report == nil {
		report = func(error) {}
	}
	switch to {
	case open:
		s.cause.Store(&err)
		s.wake()
		if !s.down {
			s.down = true
			s.counters.outages.Add(1)
			report(err)
		}
	case closed:
		s.cause.Store(nil)
		s.down = false
		report(nil)
	case halfOpen: // some requests go to the store
	}
}

// Take decides req from memory, by the store or, if that does not answer in time, by the
// failure policy of its plans. It returns at the deadline at the latest. The error is a
// [*sluice.RequestError], an [*UnavailableError], the context's if that ended or its deadline
// passed before there was a decision, or [sluice.ErrClosed].
func (s *Store) Take(ctx context.Context, req sluice.Request) (d sluice.Decision, err error) {
	if err := s.ended(ctx); err != nil {
		return d, err
	}
	if d, done, err := s.before(ctx, &req); done || err != nil {
		return d, err
	}
	if s.healthy() {
		bounded := s.bound(ctx)
		d, err = s.near.take(bounded, &req)
		end(bounded)
		return s.finish(ctx, &req, d, err)
	}
	var out [1]sluice.Result
	s.askAll(ctx, []sluice.Request{req}, out[:])
	return s.finish(ctx, &req, out[0].Decision, out[0].Err)
}

// TakeBatch decides reqs as Take does, with one call of the store if that is a
// [sluice.BatchStore]. Its error is that of the context, [sluice.ErrClosed], or says that the
// lengths of out and reqs differ.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if err := stores.ValidateBatch(reqs, out); err != nil {
		return err
	}
	if err := s.ended(ctx); err != nil {
		return err
	}
	asked, index := make([]sluice.Request, 0, len(reqs)), make([]int, 0, len(reqs))
	for i := range reqs {
		d, done, err := s.before(ctx, &reqs[i])
		if out[i] = (sluice.Result{Decision: d, Err: err}); err == nil && !done {
			asked, index = append(asked, reqs[i]), append(index, i)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	results := make([]sluice.Result, len(asked))
	s.askAll(ctx, asked, results)
	for j, i := range index {
		out[i].Decision, out[i].Err = s.finish(ctx, &reqs[i], results[j].Decision, results[j].Err)
	}
	return nil
}

// askAll has the store decide reqs. If all have an error, none is decided.
func (s *Store) askAll(ctx context.Context, reqs []sluice.Request, out []sluice.Result) {
	bounded := s.bound(ctx)
	defer end(bounded)
	if !s.healthy() {
		s.askPlain(bounded, reqs, out)
	} else if err := s.near.takeBatch(bounded, reqs, out); err != nil {
		for i := range out {
			out[i] = sluice.Result{Err: notDecided(err)}
		}
	}
}

// askPlain has the store decide each valid request of reqs, without the memory of its key.
func (s *Store) askPlain(ctx context.Context, reqs []sluice.Request, out []sluice.Result) {
	asked, index := make([]sluice.Request, 0, len(reqs)), make([]int, 0, len(reqs))
	for i := range reqs {
		r := reqs[i]
		if out[i] = (sluice.Result{Err: s.near.useLeasedPlans(&r)}); out[i].Err == nil {
			asked, index = append(asked, r), append(index, i)
		}
	}
	if len(asked) == 0 {
		return
	}
	results := make([]sluice.Result, len(asked))
	err := s.askBatch(ctx, asked, results)
	for j, i := range index {
		switch out[i] = results[j]; {
		case err != nil:
			out[i] = sluice.Result{Err: notDecided(err)}
		case alters(reqs[i].Op):
			s.near.forget(&reqs[i])
		}
	}
}

// notDecided returns the error of a batch without any decided or sent request.
func notDecided(err error) error {
	if _, sent, why := unwrap(err); sent {
		err = &sluice.NotSentError{Err: why}
	}
	return err
}

// ended returns an error once the Store is closed or the caller has left.
func (s *Store) ended(ctx context.Context) error {
	if s.recovery.ended() {
		return sluice.ErrClosed
	}
	if err := caller.Left(ctx); err != nil {
		return fmt.Errorf("remote: %w", &sluice.NotSentError{Err: err})
	}
	return nil
}

// before validates req, once for all layers. It reports true for a request that it has
// decided.
func (s *Store) before(ctx context.Context, req *sluice.Request) (d sluice.Decision, done bool, err error) {
	if err := req.Validate(); err != nil {
		return d, false, err
	}
	if req.Slot != nil {
		if s.slots == nil {
			return d, false, sluice.ErrNoSlots
		}
		if req.Op == sluice.OpTake {
			s.releases.forget(&req.Slot.SlotRequest)
		}
	}
	switch m := marked(req); {
	case m != 0 && req.Op != sluice.OpRefund:
		d = s.settleHold(ctx, req, m)
		req.At = 0
		return d, m&sentMark == 0, nil
	case m != 0:
		return s.refund(ctx, req, m), true, nil
	}
	if req.Op != sluice.OpReset {
		return d, false, nil
	}
	for i := range req.Charges() {
		s.settles.forget(req.Nth(i))
	}
	if s.local.used.Load() {
		err = s.forget(ctx, req)
	}
	return d, false, err
}

// finish returns the store's decision or, without one, that of the failure policy, and
// reports the outcome to the store.
func (s *Store) finish(ctx context.Context, req *sluice.Request, d sluice.Decision, err error) (sluice.Decision, error) {
	if err == nil {
		s.counters.decided.Add(1)
		return d, nil
	}
	if storeError(err) == nil {
		return sluice.Decision{}, err
	}
	late, sent, why := unwrap(err)
	if req.Op == sluice.OpSettle && !req.Hold.Settled && !errors.Is(err, sluice.ErrNoHolds) {
		s.settleLater(req, sent) // even if its caller has left: the units were used
	}
	passed := false
	defer func() { s.report(req, late, sent, passed) }() // even if a policy panics
	if left := caller.Left(ctx); left != nil {           // the caller's time was over, not the store's
		d, err = sluice.Decision{}, fmt.Errorf("remote: %v %q: %w", req.Op, req.Plan.Scope(), left)
	} else {
		d, err = s.degrade(ctx, req, sent, why)
	}
	passed = err == nil && d.Allowed
	return d, err
}

// report tells the store whether a request that it has not answered took place.
func (s *Store) report(req *sluice.Request, late *sluice.MaybeSentError, sent, passed bool) {
	var heard func(sluice.Late)
	if req.Slot != nil {
		heard = s.doubt(&req.Slot.SlotRequest, passed, sent, late != nil)
	}
	switch {
	case late == nil:
	case passed:
		late.Keep(heard)
	default:
		late.Undo(heard)
	}
}

// Return gives back the units in hand, for a process that is about to end and should have
// stopped taking. Units that cannot be given back before ctx ends count in the store until
// they expire there.
func (s *Store) Return(ctx context.Context) error {
	if err := s.ended(ctx); err != nil {
		return err
	}
	return s.near.giveBack(ctx)
}

// Close ends the Store's goroutine and waits for it, for Timeout at most. It drops the units
// that are still owed and the settles that were not sent; slots that could not be released
// expire. Calls in flight end when the store returns; later calls return [sluice.ErrClosed].
// Close always returns nil, and may be called again.
func (s *Store) Close() error {
	s.recovery.close()
	for _, req := range s.debts.take(math.MaxInt, time.Now()) {
		s.counters.dropped.Add(uint64(req.Cost))
	}
	for _, e := range s.settles.take(math.MaxInt, time.Now()) {
		s.counters.dropped.Add(uint64(units(&e.req)))
	}
	return nil
}
