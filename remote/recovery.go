// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clock"
)

const (
	chargesAtOnce = 128                    // in one call on the store's return
	pace          = 10 * time.Millisecond  // between probes of a store that answers
	settling      = 100 * time.Millisecond // the longest time for which owed units keep requests from a store that answers
)

// recovery owns the goroutine that probes and settles with the store.
type recovery struct {
	mu      sync.Mutex
	running bool
	nudged  chan struct{}
	closing chan struct{}
	over    sync.Once
	group   sync.WaitGroup
}

func newRecovery() recovery {
	return recovery{nudged: make(chan struct{}, 1), closing: make(chan struct{})}
}

func (r *recovery) ended() bool {
	select {
	case <-r.closing:
		return true
	default:
		return false
	}
}

func (r *recovery) close() {
	r.mu.Lock()
	r.over.Do(func() { close(r.closing) })
	r.mu.Unlock()
	r.group.Wait()
}

// wait waits for d, or less if hurried; it reports false when the Store closes.
func (r *recovery) wait(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-r.closing:
		return false
	}
	return true
}

// nudge reports an answer of the store, however late.
func (s *Store) nudge() {
	select {
	case s.recovery.nudged <- struct{}{}:
	default:
	}
}

// wake starts the goroutine if it does not run.
func (s *Store) wake() {
	k := &s.recovery
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.running || k.ended() {
		return
	}
	k.running = true
	k.group.Go(s.keep)
}

// keep probes an unavailable store, charges owed units when it answers, and lets requests back
// to it. It ends when nothing is left to do.
func (s *Store) keep() {
	for s.step(context.Background()) { // every call has its own deadline
	}
}

// step reports whether there is more to do.
func (s *Store) step(ctx context.Context) bool {
	k := &s.recovery
	switch s.breaker.is() {
	case open:
		if !k.wait(clock.Jitter(s.opts.Probe), k.nudged) || !k.wait(pace, nil) {
			return false
		}
		if s.ping(ctx, true) && s.settle(ctx, settling, true) {
			s.breaker.try()
		}
	case halfOpen:
		// The store is probed even without requests.
		s.ping(ctx, false) // askOne has reported to the breaker
		return k.wait(pace, nil)
	case closed:
		if !s.settle(ctx, time.Hour, false) && !k.wait(s.opts.Probe/2, nil) {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.running = s.breaker.is() != closed || s.debts.len() > 0 || s.settles.len() > 0 || s.releases.len() > 0
		return k.running && !k.ended()
	}
	return true
}

// keep keeps the units that a call without a caller may have spent.
func keep(err error) {
	if late, _, _ := unwrap(err); late != nil {
		late.Keep(nil)
	}
}

// ping reports whether the store answers. It takes a unit of a key of its own: a store that
// decides a take can also write.
func (s *Store) ping(ctx context.Context, past bool) bool {
	bounded := s.bound(ctx)
	defer end(bounded)
	_, err := s.askOne(bounded, &sluice.Request{Charge: sluice.Charge{Plan: s.probe, Key: "probe", Cost: 1}}, past)
	keep(err)
	return storeError(err) == nil
}

// settle charges owed units, settles holds and releases slots, for most at the longest. It
// reports whether the store has answered all calls. A settle without an answer, which is sent
// again, does not keep requests from a store that answers otherwise.
func (s *Store) settle(ctx context.Context, most time.Duration, past bool) bool {
	for began := time.Now(); time.Since(began) < most && !s.recovery.ended(); {
		if !past && s.settles.len() > 0 && !s.ping(ctx, false) {
			return false // a settle is sent a few times only
		}
		debts, slots := s.debts.take(chargesAtOnce, time.Now()), s.releases.take(chargesAtOnce, time.Now())
		holds := s.settles.take(settlesAtOnce, time.Now())
		if len(debts)+len(slots)+len(holds) == 0 {
			return true
		}
		charged := s.charge(ctx, debts, past)
		settled := s.sendSettles(ctx, holds, past)
		if !s.release(ctx, slots, past) || !charged {
			return false
		}
		if !settled {
			return past
		}
	}
	return true
}

// charge charges debts. Units that were not sent are owed again; units that may have been
// charged are not sent again.
func (s *Store) charge(ctx context.Context, debts []sluice.Request, past bool) (all bool) {
	if len(debts) == 0 {
		return true
	}
	reqs, out := slices.Clone(debts), make([]sluice.Result, len(debts))
	for i := range reqs {
		_ = s.near.useLeasedPlans(&reqs[i]) // a plan that cannot be leased is unchanged
	}
	bounded := s.bound(ctx)
	defer end(bounded)
	failed := s.askMany(bounded, reqs, out, past)
	all = true
	for i := range debts {
		units, err := debts[i].Cost, out[i].Err
		if failed != nil {
			err = notSent(failed)
		}
		_, sent, _ := unwrap(err)
		all = all && storeError(err) == nil
		switch {
		case err == nil:
			s.counters.charged.Add(uint64(units))
		case sent:
			s.counters.dropped.Add(uint64(units))
		default:
			s.counters.dropped.Add(uint64(s.debts.add(&debts[i].Charge, units, time.Now())))
		}
	}
	return all
}
