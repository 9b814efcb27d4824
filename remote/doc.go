// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package remote wraps a [sluice.Store] that is far away and can fail. It answers
// what it knows of a key without asking the store: until when it is denied (see
// Denials) and which of its units are in hand (see Leases). And it says what
// happens to requests that the store does not decide: each is let through
// ([sluice.FailOpen]), decided by a memory of this process with this node's share
// of the limit ([sluice.FailLocal]; see [sluice.Limit.Share]), or refused
// ([sluice.FailClosed]). A cost that is above the share, and not above the limit, is
// refused, too.
//
// Every request has one deadline, in the context that the store is given: a store
// returns when that ends. It listens for answers that come later, and is notified of
// each request whether it took place: what it had spent for one that did not is
// given back. A store that ignores its context needs Options.Detach, which gives
// each of its calls a goroutine. How many calls are under way is bounded, those
// included whose callers have left. A circuit breaker stops asking a store that
// fails, tries it in the background, and lets requests back to it a few at a
// time: with the defaults all of them within a second of its return.
//
// A failure policy stands in for the store, and never for a caller's patience. A caller
// whose own deadline passes before Options.Timeout, or who leaves, gets the error of its
// context and no decision, under every policy; what the store charges it all the same is
// given back. It says nothing about the store, unless no answer comes at all.
//
// # What is charged
//
// A decision that the store did not make has Degraded set. Its receipt is
// marked, so that a refund of it never reaches the store, which has not spent
// its units.
//
// What Local admits and the store was not sent, by its own word or for want of
// asking, is charged to it on its return, as far as it would still count: what the
// key spent in the last one or two windows (of a bucket: the time in which it
// refills), capped by the store at full plus the limit's Debt. Nothing is charged
// twice: a request that may have been sent and was not answered is never sent
// again nor charged later. If its answer comes while the store listens and spent
// units for a request that was not let through, they are given back; of one that
// never comes, as the connection broke, it is not known whether it spent any. A
// charge that fails on the store's return, or finds no room while it waits, is
// counted as dropped.
//
// # Slots
//
// Slots of a [sluice.SlotStore] fare alike. Of one that the store does not grant,
// FailOpen lets its owner go on, FailLocal grants it in the memory of this process,
// of whose slots each node has its share of the cap, but at least one, and
// FailClosed refuses. Such slots come on top of those that the store gave before,
// and of those that it gives after its return, until they are released: at most
// the cap in the store and, under FailLocal, the nodes' shares beside it. Owners to
// whom the store gave their slot keep it: under FailOpen and FailLocal its renewal
// is granted, and if the store is unavailable for longer than the TTL others may be in
// their place when it is back. A release is never refused: what the store was not
// reported, and what it may have granted without being heard, is released on its
// return, or has expired by then.
//
// A request for units and a slot, in one call, is let through if both are: the
// units by the policy of their plans and the slot by that of its scope.
//
// A reset is not decided by any policy: where it does not reach the store it is
// an error.
//
// # Denials
//
// A denial says for how long the same cost will not fit if nothing else comes,
// and whatever else is taken can only make that longer. So until then the
// answer is known. Of each key the smallest cost that was denied is remembered
// and until when, counted on the monotonic clock from before the request was
// sent, and for a second at most. A client that keeps pressing a key far over its
// limit then costs the store next to nothing.
//
// Once the denial of a pressed key has ended, one take asks the store. The others
// wait for what it learns, as long as that call takes and never twice: mostly the
// one unit that has come back is gone with it, and they are denied.
//
// Plain takes are answered: [sluice.OpTake] with one charge and no MaxWait, under
// one limit or several. That is off where a denial changes something: under a
// limit that counts denied requests, or one whose keys start with less than
// full. Requests that ask for the outcomes of several limits are sent on, unless
// their plan is leased: of the limits that had room at the denial, only the store
// knows what has been spent since, by other plans of the scope or other
// processes. A caller may act on that: a policy charges a grace limit where only
// the soft one denied.
//
// A request is denied here only if the store would deny it at that instant.
// Whatever could give units back through this process (a refund, a reset, a
// charge, a take under a changed limit) forgets the key before it is sent, and
// nothing is remembered about the key until it has come back. What is given
// back elsewhere is seen after a second at the latest; so is a jump of the
// store's clock, a state that the store lost, and a refund that fails here but
// reaches the store later.
//
// Of the plans of a scope each that is leased has its own memory, and the others
// share one. Those that only have a limit in common, such as a soft and a grace
// limit beside one hard limit, do not make the process forget each other's.
//
// RetryAfter, ResetAfter and the instants are counted down, as the store's own
// would be. Costs above the one remembered are answered only where the answer
// follows exactly: under one token or leaky bucket whose units last whole
// microseconds, and under one fixed window. Remaining is exact for these, unless
// the cost takes the whole bucket or the limit has just been changed, and for a
// cost of 1; else it is what it was at the denial, and the store may have more by
// now.
//
// # Leases
//
// Of a key in high demand a node takes several units at once and spends them
// itself, for a short time. However many nodes do so, whatever of theirs is
// lost, late or dead, the limit is never exceeded.
//
// A lease is an ordinary take of several units; what makes it safe is the limit
// that the store is given. Units that are granted at g may be used until g+TTL, so
// whatever is used within some span was granted within that span or less than
// TTL before. Each limit of a leased plan is therefore replaced by one whose
// promise for the longer span is the original's for the shorter:
//
//   - a sliding log or histogram has a window longer by TTL, so that units
//     count until TTL + Window after they were granted;
//   - a token bucket, or a leaky bucket that delays nothing, has a burst
//     smaller by what it refills in a TTL;
//   - a fixed window, a sliding counter and a bucket refilled by interval stay
//     as they are: between two edges it makes no difference when a unit is
//     used, so a lease ends at the next edge.
//
// The original bound, as package algo states it, then holds for the uses in
// every span, and a store needs to know nothing of leases. What it costs is
// [github.com/sluicegate/sluice/algo.LeaseCost]. Limits that cannot be leased, and why, are named by
// [sluice.Plan.Lease].
//
// A node counts the TTL on its own clock from before it sent its request, and
// ends it early by a part in 1,000, so clocks need not agree, only run at
// about the same rate. A process that is stopped between a decision and what it
// decides on acts late, as it does under any limiter.
//
// All processes that share a scope must lease it under the same TTL, or those
// that disagree change the limit with every request: the store then carries
// what is counted over from one to the other each time, which denies more. A
// unit leased under the one and used after a quiet Window under the other can
// be missed: while a fleet changes over, the units out on lease may come on top.
//
// Plain takes of one key and a cost are leased, singly or in batches. Everything
// else is asked of the store, under the same stricter limits; so is a take that
// acquires a slot. A reset makes the store forget units that are out on lease:
// other nodes may use theirs on top, for a TTL.
//
// A node that finds a key empty reserves its next units, and denies until their
// turn has come: nodes are served in their order and do not ask in vain. Until
// then another caller of the store finds no units left. Takes that
// wait for units that another has asked for fail with that request.
package remote
