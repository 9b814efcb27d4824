// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package memstore keeps the states of a rate limiter in this process: a
// [sluice.Store] and [sluice.SlotStore] that is bounded, allocates nothing on a
// take, and has no goroutine, timer or sweeper.
//
// # Memory
//
// A state lies in a block without pointers, found by 64 bits of a keyed hash of
// scope and key; the key itself is not kept. A token bucket takes about 16 to 30
// bytes in all, a fixed window or sliding counter at most 40, a full sliding log
// of 100 units at most 900.
//
// Two keys that have the same hash share one state. The secret of the hash is
// drawn at random by [New], so nobody outside can look for such keys. Among n
// keys there is a pair with odds of n²/2^65: 1 in 30 million for a million keys.
//
// # When there are too many keys
//
// A state that is idle, that is as never seen, makes room for a new key without
// any loss. Where all of the shard are alive, a new key is never refused: a
// state is evicted, and [Stats] counts it and what it owed. The rule is:
//
//   - Of a group of at least 16 states the one that is idle soonest goes, if
//     that is no later than the newcomer will be.
//   - Otherwise the search goes on through the shard, so that a state that owes
//     for longer than the newcomer is evicted only if all states of its shard
//     do. So whoever floods the store with cheap takes of ever new keys never
//     frees a denied key, until every slot of a shard holds as much debt.
//   - Newcomers that owe as much as the denied key, such as under a limit of one
//     unit, can push it out, but only if all 16 of its group owe longer still:
//     while half of the slots hold lighter states, the odds are 1 in 32,768 for
//     each eviction near it.
//   - Nothing alive is evicted at all unless, within the last sixteenth of the
//     shard's slots in new keys, more than 15 of 16 slots were alive.
//   - The form of state that takes most slots gives first: a flood of one
//     limit's keys is paid for by that limit's.
//
// # Concurrency
//
// Every decision is atomic, also one over several keys. States are spread over
// shards of about 2,000 with a lock each, so that growing or making room takes
// some tens of µs in one shard and stops no other. A plain take under a token or
// leaky bucket of one word needs no lock if its key is there, and a denial
// writes nothing.
//
// # Changed limits
//
// A state is kept under the limit that wrote it, with all its parameters. Where
// a key has none under the limit at hand, but one under a limit of the same
// scope and name that was in use before, this is carried over by [algo.Carry].
// Limits are remembered while states of theirs can be alive, up to 16 of one
// name and 4,096 names. A peek carries nothing over; it decides as if it had.
//
// # Clock
//
// Time is the system's wall clock, followed by the monotonic clock and compared
// with it about every second: a wall clock that is set takes effect within that
// time. The Store works inside a bubble of testing/synctest if it was made there.
package memstore
