// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package remote wraps a [sluice.Store] that is far away and can fail. It answers requests
// without the store where it can: by remembered denials (see Denials) and by units in hand,
// which it has leased (see Leases). A failure policy decides requests that the store does not:
// it allows them ([sluice.FailOpen]), decides them by a store in the memory of this process
// under this node's share of the limit ([sluice.FailLocal]; see [sluice.Limit.Share]), or
// refuses them ([sluice.FailClosed]). A cost above the share, but not above the limit, is
// refused, too.
//
// Every request has one deadline, in the context of the store's call: the store returns when
// that ends. The store listens for later answers, learns whether each request took place, and
// gives back the units of requests that did not. A store that ignores its context needs
// Options.Detach, which gives each of its calls a goroutine. The number of calls in flight is
// bounded, including those whose callers have left. A circuit breaker keeps requests from a
// failing store, probes it in the background, and lets requests back to it a few at a
// time: by default all of them within a second of its return.
//
// A failure policy replaces the store, and never extends a caller's deadline. A caller whose
// own deadline passes before Options.Timeout, or who leaves, gets the error of its context and
// no decision, under every policy; units that the store charges for it anyway are given back.
// This does not count as a failure of the store, unless no answer comes at all.
//
// # What is charged
//
// A decision that the store did not make has Degraded set. Its receipt is marked, so that a
// refund of its units never reaches the store, which has not spent them.
//
// Units that Local admits are charged to the store on its return, unless the request may have
// reached the store, and as far as they still count: those that the key spent in the
// last one or two windows (of a bucket: the time in which it refills), capped by the store at
// the full limit plus its Debt. No unit is charged twice: a request that may have been sent
// and was not answered is never sent again nor charged later, except a settle (see Holds). If
// its answer comes while the store listens, the units of a request that did not pass are given
// back. If none comes, because the connection broke, it is not known whether it spent any. A
// charge that fails on the store's return, or finds no room while it waits, is counted as
// dropped.
//
// # Slots
//
// Slots of a [sluice.SlotStore] are treated alike. If the store does not decide, FailOpen
// grants the slot, FailLocal grants it in the memory of this process, where each node has its
// share of the cap, but at least one slot, and FailClosed refuses it. Until they are
// released, such slots come on top of those that the store granted before and grants after its
// return: at most the cap in the store and, under FailLocal, the nodes' shares beside it.
// Owners whose slots the store granted keep them: under FailOpen and FailLocal their
// renewals are granted, but after an outage longer than the TTL others may hold their
// slots in the store. A release is never refused: a release that did not reach the store, and
// a slot whose grant was not received, is released on the store's return, or has
// expired by then.
//
// A request for units and a slot in one call passes if both do: the units by the policy of
// their plans and the slot by that of its scope.
//
// # Holds
//
// FailOpen passes a request without a hold: its settle charges the whole cost. FailLocal opens
// the hold in Local, where it is settled. The used units are owed to the store from the settle
// on; if the hold ends by itself, none are.
//
// A settle without an answer is sent on the store's return, under every policy. The store
// charges the units of one id once, so a settle that may have been sent is sent again. The
// settle returns an error nevertheless, and the caller may repeat it. Of several settles of a
// hold the first is sent. A settle that may have been sent charges nothing if the store does
// not know the hold: because the hold was never opened there, or ended so long ago that the
// store has forgotten its id (see [sluice.Hold]). A settle is dropped after 8 errors of a
// store that answers, or when its units no longer count. No policy decides an extension.
//
// No policy decides a reset: it is an error if it does not reach the store.
//
// # Denials
//
// A denial says for how long the same cost will not fit if no other request comes, and other
// takes can only make that longer. So the answer is known until then. For each key the Store
// remembers the smallest denied cost and the end of its denial, for a second at most, on the
// monotonic clock from before the request was sent. A client that keeps sending requests far
// over its limit then costs the store next to nothing.
//
// Once the denial of a busy key has ended, one take goes to the store. The others wait
// for its result, for one call at most: usually it takes the one unit that has been refilled,
// and the others are denied.
//
// Only plain takes are answered from memory: [sluice.OpTake] with one charge and no MaxWait,
// under one limit or several. They are not answered where a denial changes the state: under a
// limit that counts denied requests, or one whose keys start below full. Requests
// that ask for the outcomes of several limits go to the store, unless their plan is leased:
// only the store knows the units that other plans of the scope, or other processes, have
// since spent under the limits that had room at the denial. A caller may act on that: a policy charges a grace
// limit if only the soft one denied.
//
// A request is denied here only if the store would deny it at that instant.
// A request of this process that may give units back (a refund, a reset, a charge, a take
// under a changed limit) makes it forget the key before the request is sent, and nothing is
// remembered about the key until the request has returned. Units given back elsewhere are seen
// after a second at the latest; so is a jump of the store's clock, a state that the store
// lost, and a refund that fails here but reaches the store later.
//
// Each leased plan of a scope has its own memory, and the other plans share one. Plans that
// share only some limits, such as a soft and a grace limit beside one hard limit, do not make
// the process forget each other's denials.
//
// RetryAfter, ResetAfter and the instants are counted down as the store would. Costs above the
// remembered one are answered only where the answer follows exactly: under one token or leaky
// bucket whose units last whole microseconds, and under one fixed window. Remaining is exact
// for these, unless the cost takes the whole bucket or the limit has just been changed, and
// for a cost of 1; otherwise it is the value at the denial, and the store may have more by
// now.
//
// # Leases
//
// For a key in high demand a node takes several units at once and spends them itself, for a
// short time. However many nodes do so, and however many units are lost, late or held by dead
// nodes, the limit is never exceeded.
//
// A lease is an ordinary take of several units; it is safe because the store gets a stricter
// limit. Units granted at g may be used until g+TTL, so units used within a span were granted
// within that span or less than TTL before. Each limit of a leased plan is therefore replaced
// by one whose bound for the longer span is the original's for the shorter:
//
//   - a sliding log or histogram has a window longer by TTL, so that units
//     count until TTL + Window after they were granted;
//   - a token bucket, or a leaky bucket that delays nothing, has a burst
//     smaller by the units that it refills in a TTL;
//   - a fixed window, a sliding counter and a bucket refilled by interval stay
//     as they are: between two edges it makes no difference when a unit is
//     used, so a lease ends at the next edge.
//
// The original bound, as package algo states it, then holds for the uses in every span, and
// the store need not know of leases. Their cost is
// [github.com/sluicegate/sluice/algo.LeaseCost]. [sluice.Plan.Lease] returns which limits
// cannot be leased, and why.
//
// A node counts the TTL on its own clock from before it sent its request, and ends it early by
// a part in 1,000, so clocks need not agree, but must run at about the same rate. A process
// that is stopped between a decision and the use of it acts late, as under any limiter.
//
// All processes that share a scope must lease it under the same TTL. Processes with different
// TTLs change the limit with every request: the store then converts the state each
// time, which denies more. A unit leased under one TTL and used after an idle Window under the
// other can be missed: while a fleet changes its TTL, leased units may come on top.
//
// Plain takes with one key and a cost are leased, singly or in batches. All other requests go
// to the store under the same stricter limits; so does a take that acquires a slot. A
// reset makes the store forget leased units: other nodes may use theirs on top, for a TTL.
//
// A node that finds a key empty reserves its next units, and denies until their instant:
// nodes are served in order and do not ask in vain. Until then another caller of the store
// finds no units left. Takes that wait for units requested by another take fail with that
// request.
package remote
