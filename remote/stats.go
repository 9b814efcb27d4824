// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"sync/atomic"

	"github.com/sluicegate/sluice"
)

// Stats are the counts of a [Store] since it was made.
type Stats struct {
	// Healthy says that requests go to the store.
	Healthy bool
	// Outages is how often the store became unavailable.
	Outages uint64
	// Decided is the number of requests that the store has decided, or that were answered
	// from its earlier answers.
	Decided uint64
	// Opened, DecidedLocally and Refused count the other requests: allowed by
	// [sluice.FailOpen], decided by [sluice.FailLocal], refused by [sluice.FailClosed].
	Opened, DecidedLocally, Refused uint64
	// Timeouts, Errors, Skipped and Overloaded count the reasons, by calls: no answer in
	// time, an error, the breaker was open, too many calls in flight.
	Timeouts, Errors, Skipped, Overloaded uint64
	// InFlight is the number of calls in flight, including those whose callers have left.
	InFlight int
	// Owed is the number of keys with units to be charged to the store, and of settles of
	// holds to be sent to it.
	Owed int
	// Charged and Dropped count the units of such keys and settles that were charged, and
	// that could not be charged.
	Charged, Dropped uint64
	// GivenBack counts the decisions that came too late and were refunded, NotGivenBack
	// those whose refund failed. Answers that never came are in neither.
	GivenBack, NotGivenBack uint64
	// Unreleased is the number of slots to be released on the store's return.
	Unreleased int

	// Denied is the number of requests that were denied by an earlier denial of the store,
	// and Leases counts decisions by units leased in advance, all without asking it.
	Denied uint64
	Leases LeaseStats
}

type counters struct {
	outages, decided, opened, decidedLocally, refused atomic.Uint64
	timeouts, errors, skipped, overloaded             atomic.Uint64
	charged, dropped, givenBack, notGivenBack         atomic.Uint64
}

// of returns the counter of requests decided by a policy.
func (c *counters) of(p sluice.Failure) *atomic.Uint64 {
	if p == sluice.FailLocal {
		return &c.decidedLocally
	}
	return &c.opened
}

// Stats returns the counts so far. It does not wait for the store.
func (s *Store) Stats() Stats {
	c := &s.counters
	denials, leases := s.near.stats()
	return Stats{
		Healthy: s.healthy(), Outages: c.outages.Load(), Decided: c.decided.Load(),
		Opened: c.opened.Load(), DecidedLocally: c.decidedLocally.Load(), Refused: c.refused.Load(),
		Timeouts: c.timeouts.Load(), Errors: c.errors.Load(), Skipped: c.skipped.Load(), Overloaded: c.overloaded.Load(),
		InFlight: int(s.inFlight.Load()), Owed: s.debts.len() + s.settles.len(), Unreleased: s.releases.len(),
		Charged: c.charged.Load(), Dropped: c.dropped.Load(), GivenBack: c.givenBack.Load(), NotGivenBack: c.notGivenBack.Load(),
		Denied: denials.Answered, Leases: leases,
	}
}

// Err returns nil if requests go to the store, for readiness checks. From when the breaker
// opens until all requests go to the store again it returns the store's last error, which may
// hold text of a server or the network. It never blocks.
func (s *Store) Err() error {
	if s.healthy() {
		return nil
	}
	if err := s.cause.Load(); err != nil {
		return *err
	}
	return errSkipped // the breaker is changing
}

func (s *Store) healthy() bool { return s.breaker.is() == closed }
