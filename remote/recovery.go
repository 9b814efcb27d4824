// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
)

const (
	chargesAtOnce = 128                    // of one call, when the store has returned
	pace          = 10 * time.Millisecond  // between tries of a store that answers
	settling      = 100 * time.Millisecond // how long owed units keep requests from a store that answers
)

// recovery owns the goroutine that brings the store back.
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

func (k *recovery) ended() bool {
	select {
	case <-k.closing:
		return true
	default:
		return false
	}
}

func (k *recovery) close() {
	k.mu.Lock()
	k.over.Do(func() { close(k.closing) })
	k.mu.Unlock()
	k.group.Wait()
}

// wait waits for d, less if it is hurried; it reports false at the end.
func (k *recovery) wait(d time.Duration, hurry <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-hurry:
	case <-k.closing:
		return false
	}
	return true
}

// nudge reports that the store has answered, however late.
func (s *Store) nudge() {
	select {
	case s.recovery.nudged <- struct{}{}:
	default:
	}
}

// wake starts the goroutine if there is none.
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

// keep tries a store that is not asked, charges what it is owed when it answers,
// and lets requests back to it. It ends when there is nothing left to do.
func (s *Store) keep() {
	for s.step(context.Background()) { // every call has its own deadline
	}
}

// jitter returns d to 2·d.
func jitter(d time.Duration) time.Duration {
	return d + rand.N(d+1) //nolint:gosec // nodes shall not come together; nobody gains by guessing
}

// step reports whether there is more to do.
func (s *Store) step(ctx context.Context) bool {
	k := &s.recovery
	switch s.breaker.is() {
	case open:
		half := s.opts.Probe / 2
		if !k.wait(jitter(half), k.nudged) || !k.wait(pace, nil) {
			return false
		}
		if s.ping(ctx, true) && s.settle(ctx, settling, true) {
			s.breaker.try()
		}
	case halfOpen:
		// Where no request comes, the store is tried all the same.
		s.ping(ctx, false) // the breaker has heard
		return k.wait(pace, nil)
	case closed:
		if !s.settle(ctx, time.Hour, false) && !k.wait(s.opts.Probe/2, nil) {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.running = s.breaker.is() != closed || s.debts.len() > 0 || s.releases.len() > 0
		return k.running && !k.ended()
	}
	return true
}

// keep lets what a question without a caller may have spent count.
func keep(err error) {
	if late, _, _ := unwrap(err); late != nil {
		late.Keep(nil)
	}
}

// ping reports whether the store answers. It takes a unit of a key of its own: a
// store that answers that can write.
func (s *Store) ping(ctx context.Context, past bool) bool {
	bounded := s.bound(ctx)
	defer end(bounded)
	_, err := s.askOne(bounded, &sluice.Request{Charge: sluice.Charge{Plan: s.probe, Key: "probe", Cost: 1}}, past)
	keep(err)
	return storeError(err) == nil
}

// settle charges what is owed and releases what is held, for so long at most. It
// reports whether the store has answered all of it.
func (s *Store) settle(ctx context.Context, most time.Duration, past bool) bool {
	for began := time.Now(); time.Since(began) < most && !s.recovery.ended(); {
		debts, slots := s.debts.take(chargesAtOnce, time.Now()), s.releases.take(chargesAtOnce, time.Now())
		if len(debts)+len(slots) == 0 {
			return true
		}
		if charged := s.charge(ctx, debts, past); !s.release(ctx, slots, past) || !charged {
			return false
		}
	}
	return true
}

// charge charges debts. What was not sent is owed again; what may have been
// charged is not sent again.
func (s *Store) charge(ctx context.Context, debts []sluice.Request, past bool) (all bool) {
	if len(debts) == 0 {
		return true
	}
	reqs, out := slices.Clone(debts), make([]sluice.Result, len(debts))
	for i := range reqs {
		_ = s.near.useLeasedPlans(&reqs[i]) // one that cannot be leased is as it is
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
