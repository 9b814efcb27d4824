// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package remote wraps a [sluice.Store] that is far away and can fail. It says
// what happens to requests that the store does not decide: each is let through
// ([sluice.FailOpen]), decided by a memory of this process with this node's share
// of the limit ([sluice.FailLocal]), or refused ([sluice.FailClosed]).
//
// Every request has one deadline, in the context that the store is given: a store
// returns when that ends. It listens for answers that come later, and is told of
// each request whether it took place: what it had spent for one that did not is
// given back. A store that ignores its context needs Options.Detach, which gives
// each of its calls a goroutine. How many calls are under way is bounded, those
// included whose callers have left. A circuit breaker stops asking a store that
// fails, tries it in the background, and lets requests back to it a few at a
// time: with the defaults all of them within a second of its return.
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
// is granted, and if the store is away for longer than the TTL others may be in
// their place when it is back. A release is never refused: what the store was not
// told, and what it may have granted without being heard, is released on its
// return, or has expired by then.
//
// A request for units and a slot, in one call, is let through if both are: the
// units by the policy of their plans and the slot by that of its scope.
//
// A reset is not decided by any policy: where it does not reach the store it is
// an error.
package remote
