// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Options are the settings of a [Store]. The zero value allows requests that the store does
// not decide, and leases nothing.
type Options struct {
	// Local decides in this process under [sluice.FailLocal], and keeps slots granted by a
	// policy; it must be a [sluice.SlotStore], such as
	// memstore.New(memstore.Options{MaxKeys: 1 << 16}). No other code may use it. Without
	// it FailLocal refuses, and slots granted by [sluice.FailOpen] are not recorded: the
	// store, on its return, refuses to renew them.
	Local sluice.Store

	// PolicyOf returns the failure policy of a plan; a request over several plans gets the
	// strictest. A value that is no policy counts as FailClosed. Nil means Policy for all
	// plans. It is called for every request that the store does not decide, and must be
	// safe for concurrent use.
	PolicyOf func(*sluice.Plan) sluice.Failure
	Policy   sluice.Failure

	// SlotPolicyOf returns the failure policy of slots in a scope, as PolicyOf does for
	// plans.
	SlotPolicyOf func(scope string) sluice.Failure

	// Timeout is how long a caller waits for the store at most, or less if its context
	// ends earlier. Zero means 0.1 s.
	Timeout time.Duration
	// Detach gives every call of the store a goroutine, for a store that does not return
	// when its context ends. LateTimeout is how long the context of such a call lasts
	// after the Timeout, and how long giving back its units may take. Zero or less means
	// 0.8 s.
	Detach      bool
	LateTimeout time.Duration
	// MaxInFlight is the largest number of calls in flight, including those whose callers
	// have left and whose answers the store still listens for. A caller beyond that does
	// not wait. Zero means 1,024.
	MaxInFlight int
	// Failures is the number by which failed calls must exceed the others to make the
	// store unavailable. Zero means 5.
	Failures int
	// Probe is the longest time between two probes of an unavailable store; each wait is
	// drawn from its upper half, so that the nodes of a fleet do not probe together. All
	// requests go to the store again at most Probe plus Timeout plus about 0.2 s after its
	// return. Zero means 0.5 s.
	Probe time.Duration

	// Nodes returns the last known number of live nodes, for [sluice.FailLocal]: each gets
	// its [sluice.Limit.Share]. Nil means 1, which gives every node the whole limit. It is
	// called often and must not block.
	Nodes func() int
	// MaxOwed is the largest number of keys that owe units to the store, also of settles of
	// holds to be sent, and of slots to be released. Zero means 65,536.
	MaxOwed int

	// Lease returns whether a plan is leased, and its terms: see [sluice.LeaseTerms]. It is
	// called once or a few times for each plan, and must always return the same. Nil
	// leases none.
	Lease func(*sluice.Plan) (sluice.LeaseTerms, bool)
	// MaxKeys is the largest number of keys in memory: a denied key takes about 170 bytes,
	// one with units in hand a few hundred. Without room the denial that ends soonest is
	// forgotten, and the store is called once more. Units in hand are never forgotten:
	// without room for their key, takes go to the store one by one. Zero means 65,536, a
	// negative number 1.
	MaxKeys int
	// MaxDenial is how long a denial is remembered, and so how late units given back by
	// another process may be seen: at most a second, which zero means. A negative value
	// remembers none.
	MaxDenial time.Duration
	// Now is the clock for leases and denials: nil means the system's. Only differences
	// matter, and its times should carry a monotonic reading. It must be safe for
	// concurrent use.
	Now func() time.Time

	// OnChange, if not nil, is called with the last failure when the store becomes
	// unavailable, and with nil when all requests go to it again, for example to log it. It
	// is called under a lock, must return quickly and may call no methods of the Store but
	// Err and Stats.
	OnChange func(error)
}

func (o Options) filled() Options {
	o.Timeout = orDefault(o.Timeout, bounds.DefaultTimeout)
	o.LateTimeout = orDefault(o.LateTimeout, bounds.DefaultLateTimeout)
	o.Probe = orDefault(o.Probe, bounds.DefaultProbe)
	o.Failures = min(orDefault(o.Failures, bounds.DefaultFailures), math.MaxInt32)
	o.MaxInFlight = min(orDefault(o.MaxInFlight, bounds.DefaultMaxInFlight), math.MaxInt32)
	o.MaxOwed = orDefault(o.MaxOwed, bounds.DefaultMaxOwed)
	if o.Nodes == nil {
		o.Nodes = func() int { return 1 }
	}
	return o
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}
