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
// Two keys that have the same hash share one state. The secret of the hash is
// drawn at random by [New], so nobody outside can look for such keys. Among n
// keys there is a pair with odds of n²/2^65: 1 in 30 million for a million keys.
//
// # When there are too many keys
//
// An idle state, of a key that is fully refilled, makes room for a new key without
// any loss. Where all of the shard are alive, a new key is never refused: a
// state is evicted, and [Stats] counts it and what it owed. A shard holds a part
// of MaxKeys, 1,000 states and fewer in small Stores; N is how many. The rule is:
//
//   - A state goes that was not taken while between N/2 and N new keys came
//     (second chance, or CLOCK).
//   - A denied key does not go: one whose last take found too little left, under
//     the state of each limit that denied it. An allowed take makes it one like
//     all others; a peek, a charge and a refund do not.
//   - That holds while at most 7 of 8 states are shielded in this way. Above that
//     the denied key goes that is idle soonest of 64, for each new key. So the
//     rest of the room stays for others, and they are not forgotten at once.
//     Where denied keys do fill it, N above is that rest: at least N/8.
//   - A state of the empty key does not go, as all requests share it: that of a
//     limit for all. So it is for a quarter of the states at most.
//
// A flood of new keys therefore frees no denied key and wears out no limit
// without a key, by whatever limits and algorithms, unless it consists of denied
// keys itself: of 7N/8, each of which has spent its quota first. What is left to
// it is to have keys forgotten that are not denied: a client that sends N/2 to N new keys,
// one unit each, may use up to a whole quota again of a key that was not asked
// for once too often. A limit of one unit denies nobody at their first take.
//
// # Concurrency
//
// Every decision is atomic, also one over several keys. States are spread over
// shards of at most about 1,000 with a lock each, so that growing, dividing or making
// room takes some tens of µs in one shard and stops no other. A Store starts with
// few shards, by the number of processors, and divides those that are full, as far as
// MaxKeys goes. A plain take under a token or
// leaky bucket or a fixed window of one word needs no lock if its key is there, and a denial
// writes nothing. A window's state is a word up to 65,535 units, and up to 8,589,934,591 if
// it is aligned to the clock and between half a second and 50 days long.
//
// # Changed limits
//
// A key has one state for each name of a limit and form: buckets with continuous
// refill share a balance, and limits that count the same windows in the same way
// share the counts, whatever their quotas (see [algo.SameForm]). A state names
// the limit that wrote it. So a changed quota, a tier or an override finds what
// the key has spent, however many versions of the limit there are, and a take of
// a new key costs the same with 1 and with 100,000 of them. [algo.BoundOfChange]
// says what versions admit together. A key takes at most 40 bytes, and at most 40
// for each further window that still counts; only a bucket whose reduced quota is
// above 2^28 takes 44 to 60 while several versions use it or units are reserved.
//
// The first bucket or fixed window of a name keeps its states in words, which
// need no lock. Later versions of that name take the lock. A limit is forgotten
// when no state names it. One of each scope and name is kept for good, up to
// 65,536 of them; beyond that, those that were not looked up for longer than
// their states live.
//
// What a limit withholds at its start ("initial", "pre-filled") counts from the
// Store's first request under its scope and name, which a snapshot keeps.
//
// # Clock
//
// Time is the system's wall clock, followed by the monotonic clock and compared
// with it about every second: a wall clock that is set forward takes effect within that
// time. One that is set back changes nothing: the Store's time goes on, ahead of it, so no
// key waits for longer. A clock of Options.Now may go back. Then a state that
// is further ahead of it than its limit allows (what Burst and Debt last, or a window, and
// MaxWait more if units are reserved) becomes empty, without debt, and so does what a snapshot
// holds from a clock that was ahead: a key that had units left waits for a window at most
// or, with a debt, until (Burst+Debt)/rate has passed. Each such step back may grant a key
// what a new key has once more. The Store works inside a bubble of testing/synctest if it was made there.
package memstore
