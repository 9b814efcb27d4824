// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package failure wraps a [sluice.Store] that can fail, and says what happens to
// requests that it does not decide: each is let through ([sluice.FailOpen]), decided by a
// memory of this process with this node's share of the limit ([sluice.FailLocal]), or
// refused ([sluice.FailClosed]).
//
// Every call has a deadline, kept whatever the store does. The store does not
// learn that a caller has left: its answer is waited for a while longer, by a
// bounded number of goroutines, which end when it answers, or when it heeds its
// context. A circuit breaker stops asking a store that fails, tries it in the
// background, and lets requests back to it a few at a time: with the defaults
// all of them within a second of its return.
//
// # What is charged
//
// A decision that the store did not make has Degraded set. Its receipt is
// marked, so that a refund of it never reaches the store, which has not spent
// its units.
//
// What Local admits without asking the store is charged to it on its return, as
// far as it would still count: what the key spent in the last one or two windows
// (of a bucket: the time in which it refills), capped by the store at full plus
// the limit's Debt. Nothing is charged twice: a request that was sent and not
// answered is never sent again nor charged later. If its answer comes within
// Options.LateTimeout and spent units for a request that was not let through, they
// are given back; of one that never comes, as the connection broke, it is not
// known whether it spent any. A charge that fails on the store's return, or finds
// no room while it waits, is counted as dropped.
//
// # Slots
//
// Slots of a [sluice.SlotStore] fare alike. Of one that the store does not
// grant, [sluice.FailOpen] lets its owner go on, [sluice.FailLocal] grants it in the memory of this
// process, of whose slots each node has its share of the cap, but at least one,
// and [sluice.FailClosed] refuses. Such slots come on top of those that the store gave
// before, and of those that it gives after its return, until they are released:
// at most the cap in the store and, under Local, the nodes' shares beside it.
// Owners to whom the store gave their slot keep it: under Open and Local its
// renewal is granted, and if the store is away for longer than the TTL others
// may be in their place when it is back. A release is never refused: what the
// store was not told, and what it may have granted without being heard, is
// released on its return, or has expired by then.
//
// A reset is not decided by any policy: where it does not reach the store it is
// an error.
package failure
