// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package lease wraps a [sluice.Store] so that a key in high demand costs it
// few calls: a node takes several units of the key at once and spends them
// itself, for a short time. However many nodes do so, whatever of theirs is
// lost, late or dead, the limit is never exceeded.
//
//	leased := lease.Wrap(store, lease.Options{
//		Of: func(p *sluice.Plan) (sluice.LeaseTerms, bool) { return sluice.LeaseTerms{}, p == downloads },
//	})
//
// A lease is an ordinary take of several units; what makes it safe is the limit
// that the store is given. Units that are granted at g may be used until g+TTL, so
// whatever is used within some span was granted within that span or less than
// TTL before. Each limit of a leased plan is therefore replaced by one whose
// promise for the longer span is the original's for the shorter:
//
//   - a sliding log or histogram has a window longer by TTL, so that units
//     count until TTL + Window after they were granted;
//   - a token bucket, or a leaky bucket that holds nothing back, has a burst
//     smaller by what it refills in a TTL;
//   - a fixed window, a sliding counter and a bucket refilled by interval stay
//     as they are: between two edges it makes no difference when a unit is
//     used, so a lease ends at the next edge.
//
// The original bound, as package algo states it, then holds for the uses in
// every span, and a store needs to know nothing of leases. What it costs is
// [algo.LeaseCost]. Limits that cannot be leased, and why, are named by
// [sluice.Plan.Lease].
//
// A node counts the TTL on its own clock from before it sent its request, and
// ends it early by a part in [Drift], so clocks need not agree, only run at
// about the same rate. A process that is stopped between a decision and what it
// decides on acts late, as it does under any limiter.
//
// # Who must agree
//
// All processes that share a scope must lease it under the same TTL, or those
// that disagree change the limit with every request: the store then carries
// what is counted over from one to the other each time, which denies more. A
// unit leased under the one and used after a quiet Window under the other can
// be missed: while a fleet changes over, the units out on lease may come on top.
//
// # What passes through
//
// Plain takes of one key are leased, singly or in batches: [sluice.OpTake] with
// one charge, a cost and no MaxWait. Everything else is asked of the store, under
// the same stricter limits. A reset makes the store forget units that are out on
// lease: other nodes may use theirs on top, for a TTL.
//
// Slots are passed on as they are.
//
// A node that finds a key empty reserves its next units, and denies until their
// turn has come: nodes are served in their order and do not ask in vain. Until
// then who asks the store for the key otherwise finds nothing left.
//
// A denial is remembered here until the instant at which its cost fits, or for
// [MaxDenial]: what is given back elsewhere is seen after that at the latest.
//
// Wrap it inside a failure policy, not around one: what a policy decides in the
// place of a store is not leased.
package lease
