// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package failure wraps a [sluice.Store] that can fail, and says what happens to
// requests that it does not decide: each is let through ([Open]), decided by a
// memory of this process with this node's share of the limit ([Local]), or
// refused ([Closed]).
//
// Every call has a deadline, kept whatever the store does: one that hangs and
// ignores its context costs a bounded number of goroutines, which end when it
// returns. A circuit breaker stops asking a store that fails, tries it in the
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
// answered is never sent again nor charged later. If its answer comes late and
// spent units for a request that was not let through, they are given back. A
// charge that fails on the store's return, or finds no room while it waits, is
// counted as dropped.
//
// A reset is not decided by any policy: where it does not reach the store it is
// an error.
package failure
