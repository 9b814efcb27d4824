// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"math"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Options are the settings of a [Store]. With the zero value they let requests
// through that the store does not decide, and lease nothing.
type Options struct {
	// Local decides in this process under [sluice.FailLocal], and keeps slots that a
	// policy gave: memstore.New(memstore.Options{MaxKeys: 1 << 16}),
	// say, or another [sluice.SlotStore]. Nobody else may use it. Without it
	// FailLocal refuses, and slots that [sluice.FailOpen] gives are not written
	// down: the store, on its return, refuses to renew them.
	Local sluice.Store

	// PolicyOf returns the policy of a plan; a request over several plans gets
	// the strictest of theirs,
	// and one that is none of the policies counts as FailClosed. Nil means Policy for all. It is called for every
	// request that the store does not decide, by many goroutines at once.
	PolicyOf func(*sluice.Plan) sluice.Failure
	Policy   sluice.Failure

	// SlotPolicyOf returns the policy of slots of a scope, as PolicyOf does of a
	// plan.
	SlotPolicyOf func(scope string) sluice.Failure

	// Timeout is how long a caller waits for the store at most; less if its
	// context ends earlier. Zero means 0.1 s.
	Timeout time.Duration
	// Detach gives every call of the store a goroutine, for a store that does not
	// return when its context ends. LateTimeout is for how long after the Timeout
	// such a call has a context, and what it spent too late may take to be given
	// back. Zero and less mean 0.8 s.
	Detach      bool
	LateTimeout time.Duration
	// MaxInFlight is how many calls may be with the store at once, those included
	// whose callers have left and whose answers it still listens for. A caller
	// beyond that does not wait. Zero means 1,024.
	MaxInFlight int
	// Failures is by how many failed calls must outnumber the others before the
	// store is no longer asked. Zero means 5.
	Failures int
	// Probe is the longest time between two tries of a store that is not asked;
	// each wait is drawn from the upper half of it, so that the nodes of a fleet
	// do not come together. All requests are back at most Probe, Timeout and
	// about 0.2 s after the store. Zero means 0.5 s.
	Probe time.Duration

	// Nodes returns the last known number of live nodes, for [sluice.FailLocal]: each gets
	// its [sluice.Limit.Share]. Nil means 1, which gives every node the whole limit. It is
	// called often and must not block.
	Nodes func() int
	// MaxOwed is how many keys may owe units to the store, and how many slots may
	// be to be released. Zero means 65,536.
	MaxOwed int

	// Lease says which plans are leased and how: see [sluice.LeaseTerms]. It is
	// asked once for each plan, or a few times, and must answer the same every
	// time. Nil leases none.
	Lease func(*sluice.Plan) (sluice.LeaseTerms, bool)
	// MaxKeys is how many keys are remembered at once: one that is denied takes
	// about 170 bytes, one of which units are in hand a few hundred. Where there
	// is no room the denial that ends soonest is forgotten: then the store is
	// asked once more. Units in hand are never forgotten: takes of a key for
	// which there is no room are asked of the store one by one. Zero means
	// 65,536, a negative number 1.
	MaxKeys int
	// MaxDenial is how long it is remembered that a key was denied, which is how
	// late it may be seen that another process gave units back: at most a second,
	// which zero means. Negative: every request is asked for.
	MaxDenial time.Duration
	// Now is the clock by which that is remembered: nil means the system's. Only
	// differences are looked at, and its times should carry a monotonic reading.
	// It must be safe for concurrent use.
	Now func() time.Time

	// OnChange, if not nil, is called when the store is marked down and when all
	// requests are let back to it, and at no other time: what to log. It is
	// called under a lock, must return quickly and may call nothing of the Store
	// but Healthy, Cause and Stats.
	OnChange func(Health)
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
