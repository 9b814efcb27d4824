// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice"
)

const (
	chargesAtOnce = 128                    // of one call, when the store has returned
	pace          = 10 * time.Millisecond  // between tries of a store that answers
	settling      = 100 * time.Millisecond // how long owed units keep requests from a store that answers
)

func (k *keeper) ended() bool {
	select {
	case <-k.closing:
		return true
	default:
		return false
	}
}

func (k *keeper) close() {
	k.mu.Lock()
	k.over.Do(func() { close(k.closing) })
	k.mu.Unlock()
	k.group.Wait()
}

// wait waits for d, less if it is hurried; it reports false at the end.
func (k *keeper) wait(d time.Duration, hurry <-chan struct{}) bool {
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

// nudge tells that the store has answered, however late.
func (s *Store) nudge() {
	select {
	case s.keeper.nudged <- struct{}{}:
	default:
	}
}

// wake starts the keeper's goroutine if there is none.
func (s *Store) wake() {
	k := &s.keeper
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
	k := &s.keeper
	switch s.breaker.is() {
	case open:
		half := s.opts.Probe / 2
		if !k.wait(jitter(half), k.nudged) || !k.wait(pace, nil) {
			return false
		}
		if s.ping(ctx, s.direct) && s.settle(ctx, settling, s.direct) && s.settleSlots(ctx, settling, s.direct) {
			s.breaker.try()
		}
	case halfOpen:
		// Where no request comes, the store is tried all the same.
		s.ping(ctx, s.send) // the breaker has heard
		return k.wait(pace, nil)
	case closed:
		if !(s.settle(ctx, time.Hour, s.send) && s.settleSlots(ctx, time.Hour, s.send)) && !k.wait(s.opts.Probe/2, nil) {
			return false
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.running = s.breaker.is() != closed || s.ledger.len() > 0 || s.releases.len() > 0
		return k.running && !k.ended()
	}
	return true
}

// sender is how a call is sent: see [Store.send], which asks the breaker, and
// [Store.direct], which does not.
type sender func(context.Context, *call) (sent bool, err error)

// direct is send past the breaker. It may go beyond MaxInFlight by one call, as
// all others may hang.
func (s *Store) direct(ctx context.Context, c *call) (sent bool, err error) {
	err = s.ask(ctx, c, int64(s.opts.MaxInFlight)+1)
	if errors.Is(err, errCrowded) {
		return false, err
	}
	why := err
	if why == nil {
		why = c.failure()
	}
	if why != nil {
		s.cause.Store(&why)
	}
	return true, err
}

// ping reports whether the store answers. It takes a unit of a key of its own: a
// store that answers that can write.
func (s *Store) ping(ctx context.Context, send sender) bool {
	c := s.newCall([]sluice.Request{{Charge: sluice.Charge{Plan: s.probe, Key: "probe", Cost: 1}}}, true)
	_, err := send(ctx, c)
	c.tell([]bool{true})
	return err == nil && c.failure() == nil
}

// settle charges what is owed, for so long at most. It reports whether the store
// has answered all of it.
func (s *Store) settle(ctx context.Context, most time.Duration, send sender) bool {
	for began := time.Now(); time.Since(began) < most && !s.keeper.ended(); {
		reqs := s.ledger.take(chargesAtOnce, time.Now())
		if len(reqs) == 0 {
			return true
		}
		c := s.newCall(reqs, false)
		sent, err := send(ctx, c)
		c.tell(make([]bool, len(reqs)))
		for i := range reqs {
			units := reqs[i].Cost
			switch {
			case !sent:
				units = s.ledger.add(&reqs[i].Charge, units, time.Now())
				s.counters.dropped.Add(uint64(units))
			case err == nil && c.err == nil && c.results[i].Err == nil:
				s.counters.charged.Add(uint64(units))
			default: // it may have been charged, so it is not sent again
				s.counters.dropped.Add(uint64(units))
			}
		}
		if err != nil || c.failure() != nil {
			return false
		}
	}
	return true
}
