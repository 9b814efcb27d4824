// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
)

// Health is what [Options].OnChange receives.
type Health struct {
	Healthy bool
	Err     error         // the failure that was one too many; nil if Healthy
	Down    time.Duration // how long the store was unavailable; 0 unless Healthy
}

// Stats is what a [Store] has done since it was made.
type Stats struct {
	// Healthy says that requests go to the store.
	Healthy bool
	// Outages is how often they have ceased to.
	Outages uint64
	// Decided is how many requests the store has decided, now or by what it said
	// before.
	Decided uint64
	// Opened, DecidedLocally and Refused are how many requests it has not: let through by
	// [sluice.FailOpen], decided by [sluice.FailLocal], refused by [sluice.FailClosed].
	Opened, DecidedLocally, Refused uint64
	// Timeouts, Errors, Skipped and Overloaded say why, by calls: no answer in
	// time, an error, the breaker was open, too many calls in flight.
	Timeouts, Errors, Skipped, Overloaded uint64
	// InFlight is how many calls have not come back, those included whose
	// callers have left.
	InFlight int
	// Owed is how many keys have units to be charged to the store.
	Owed int
	// Charged and Dropped are the units of such keys that were charged, and that
	// could not be.
	Charged, Dropped uint64
	// GivenBack is how many decisions came too late and were refunded, NotGivenBack
	// those decisions whose refund failed. Answers that never came are in neither.
	GivenBack, NotGivenBack uint64
	// Unreleased is how many slots are to be released on the store's return.
	Unreleased int

	// Denials and Leases are what was decided without the store, by what it had
	// said before.
	Denials DenialStats
	Leases  LeaseStats
}

type counters struct {
	outages, decided, opened, decidedLocally, refused atomic.Uint64
	timeouts, errors, skipped, overloaded             atomic.Uint64
	charged, dropped, givenBack, notGivenBack         atomic.Uint64
}

// of returns the counter of requests that a policy has decided.
func (c *counters) of(p sluice.Failure) *atomic.Uint64 {
	if p == sluice.FailLocal {
		return &c.decidedLocally
	}
	return &c.opened
}

// Stats returns what the Store has done. It does not wait for the store.
func (s *Store) Stats() Stats {
	c := &s.counters
	denials, leases := s.near.stats()
	return Stats{
		Healthy: s.Healthy(), Outages: c.outages.Load(), Decided: c.decided.Load(),
		Opened: c.opened.Load(), DecidedLocally: c.decidedLocally.Load(), Refused: c.refused.Load(),
		Timeouts: c.timeouts.Load(), Errors: c.errors.Load(), Skipped: c.skipped.Load(), Overloaded: c.overloaded.Load(),
		InFlight: int(s.inFlight.Load()), Owed: s.debts.len(), Unreleased: s.releases.len(),
		Charged: c.charged.Load(), Dropped: c.dropped.Load(), GivenBack: c.givenBack.Load(), NotGivenBack: c.notGivenBack.Load(),
		Denials: denials, Leases: leases,
	}
}

// Cause returns why requests do not go to the store: its last failure, in its
// own words, which are what a server or the network said. It is nil if the store
// is healthy. It never blocks.
func (s *Store) Cause() error {
	if err := s.cause.Load(); err != nil && !s.Healthy() {
		return *err
	}
	return nil
}

// Healthy reports whether requests go to the store: false from when the breaker
// opens until all requests are let back. It is for readiness checks and never
// blocks.
func (s *Store) Healthy() bool { return s.breaker.is() == closed }
