// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package memstore keeps the states of a rate limiter in this process: a
// [sluice.Store] and [sluice.SlotStore] that is bounded, allocates nothing on a
// take, and has no goroutine, timer or sweeper.
//
// # Memory
//
// A state lies in a block without pointers, found by 64 bits of a keyed hash of
// scope and key; the key itself is not kept. A token bucket or fixed window takes about 20 to 45
// bytes in all, a sliding counter about 30 to 40, and a full sliding
// log of 100 units about 900, with 20,000 keys and more, whatever MaxKeys is.
//
// Two keys that have the same hash share one state. [New] draws the secret of the
// hash at random, so a client cannot search for such keys. The odds that n keys
// contain such a pair are n²/2^65: 1 in 30 million for a million keys.
//
// # When there are too many keys
//
// A new key takes the room of an idle state, whose key is fully refilled, without any
// loss. If all states of the shard are alive, the new key is not refused: a state is
// evicted, and [Stats] counts it and its debt. A shard holds N states: about 1,000,
// and fewer in small Stores. The rules are:
//
//   - A state is evicted if it was not taken while between N/2 and N new keys
//     arrived (second chance, or CLOCK).
//   - A denied key is not evicted. A key is denied if its last take was, and only
//     in the states of the limits that denied it. An allowed take ends the denial; a peek, a
//     charge and a refund do not.
//   - At most 7 of 8 states are shielded in this way. Above that each new key
//     evicts, of 64 denied keys, the one that is idle soonest. So the remaining
//     states are left to other keys, which are not forgotten at once. While denied
//     keys fill their part, N above is the remainder, at least N/8.
//   - A state of the empty key is not evicted, as all requests share it. This holds
//     for at most a quarter of the states.
//
// A flood of new keys therefore evicts no denied key and no limit without a key,
// whatever the limits and algorithms are, unless 7N/8 of its own keys are denied; each of
// these has spent its quota first. A flood can evict keys that are not denied:
// a client that sends N/2 to N new keys, one unit each, may spend up to a whole quota
// again under a key that was not denied yet. A limit of one unit denies no first take.
//
// # Concurrency
//
// Every decision is atomic, also one over several keys. States are spread over
// shards of at most about 1,000 states with a lock each. Growing, dividing or evicting
// takes some tens of µs in one shard and does not block the others. A Store starts with
// few shards, by the number of processors, and divides full ones, as far as MaxKeys
// allows. A plain take under a token or leaky bucket or a fixed window of one word needs
// no lock if its key has a state, and a denial writes nothing. A window's state is a word
// up to 65,535 units, and up to 8,589,934,591 if the window is aligned to the clock and
// between half a second and 50 days long.
//
// # Changed limits
//
// A key has one state for each name of a limit and form: buckets with continuous
// refill share a balance, and limits that count the same windows in the same way
// share the counts, whatever their quotas (see [sluice.Term]). A state names
// the limit that wrote it. So the spent units of a key also count after a changed quota
// and under a tier or an override, however many versions of the limit there are. A take
// of a new key costs the same with 1 and with 100,000 versions. [algo.Bound]
// returns the units that versions admit together. A key takes at most 40 bytes, and at
// most 40 for each further window that still counts; only a bucket whose reduced quota is
// above 2^28 takes 44 to 60 while several versions use it or units are reserved.
//
// The first bucket or fixed window of a name keeps its states in words, which
// need no lock. Later versions of that name take the lock. A limit is forgotten
// when no state names it. One limit of each scope and name is kept for good, up to
// 65,536 of them. Beyond that, a limit is forgotten too if it was not used for longer
// than its states live.
//
// An initial deficit ("initial", "pre-filled") counts from the Store's first request
// under the limit's scope and name. A snapshot keeps that instant.
//
// # Holds
//
// A state with open holds lies in a slot, and takes of its key need the lock. Holds stay until
// their ids are forgotten, and go with a state that is evicted; [Stats] counts them. A Store
// has MaxKeys/8 at most, each of about 200 bytes, and denies more. A snapshot has none: what
// was held stays spent after a restore, and a settle charges in full.
//
// # Clock
//
// Time is the system's wall clock, measured with the monotonic clock and compared
// with the wall clock about every second. A wall clock that is set forward takes effect
// within that time. One that is set back has no effect: the Store's time stays ahead of
// it, so no key waits longer. A clock of Options.Now may go back. Then a state that is
// further ahead than its limit allows becomes empty, without debt: further than
// (Burst+Debt)/rate or a window, and MaxWait more if units are reserved. The same holds
// for the states of a snapshot whose clock was ahead. Until then a key that had units
// left waits for a window at most or, with a debt, until (Burst+Debt)/rate has passed.
// Each such step back may grant a key the units of a new key once more. The Store works
// inside a bubble of testing/synctest if it was made there.
package memstore
