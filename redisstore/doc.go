// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps the states of a rate limiter on a Redis server from
// 7.0 on, or Valkey from 8 on: a [sluice.Store] and [sluice.SlotStore] that any
// number of processes share. The server may be a single one, one that Sentinels
// watch, or a Cluster.
//
//	store, err := redisstore.Open(ctx, os.Getenv("REDIS_URL"), redisstore.Options{})
//
// Package remote decides requests while the servers are
// unavailable. Packages rueidisstore and goredis make a Store over a client that a
// program has already.
//
// # Decisions
//
// A request is decided by one script on the server, at the server's time, as
// package algo decides it; the script returns the state that it found, and algo
// works out from it what else there is to say. All limits of a key are in one
// hash slot and in one script. Requests for different keys share a pipeline and,
// where they are takes of one cost under limits that read the same, a call of up to 12
// keys, but in a Cluster. Those for one key and plan that come while one is on its way share
// the next call. So a clock of this machine that is wrong changes nothing. Where the
// server's clock steps back, or a replica whose clock is behind becomes the primary, a state that is
// further ahead of it than its limit allows (what Burst and Debt last, or a window, and MaxWait more
// if units are reserved) becomes empty, without debt: a key that had units left waits for a
// window at most or, with a debt, until (Burst+Debt)/rate has passed. Each such step back may
// grant a key what a new key has once more. The slot of
// a request is decided by the same script, at the same instant.
//
// A script decides on states that its own limit wrote. All others are decided in
// this process, on what the server has, which is then replaced if nobody has
// changed it meanwhile: a second round trip, and more where several processes
// press the same key. See below for when that is.
//
// Over keys in several slots of a Cluster there is no script: see [Store.Take].
// Such a request looks at all keys first. If one denies nothing is written,
// otherwise they are charged one after the other, and what was charged is undone
// if one denies after all. Others may be denied meanwhile; nothing is admitted
// twice. The receipt of such a decision names one instant, the earliest that the
// clocks of the nodes show. Where these differ by more than a second, or requests
// get in each other's way, a sliding log on another node may not find the units
// again and keeps them counted.
//
// Where a script cannot decide all of a request, its slot is acquired first, and
// released if the units are denied or fail: others may be denied it meanwhile.
//
// # When a limit changes
//
// A key's state is that of a scope, a key and the name of a limit, whichever node wrote
// it: limits of one name share what a key owes, as package algo has it. Those that
// differ in quota share one state. The first request under the new one that
// changes it, or each while processes with both are in use, takes a second round
// trip. Limits whose windows or algorithms differ count in states of their own, up
// to 4 in one value, and while more than one of them lives all
// requests for that key take a second round trip. A denial writes nothing.
//
// A process that has met several limits of a scope and name, as when plans or
// overrides differ in quota, writes with each new balance since when it is, so
// that receipts of the others give nothing back of it. Two limits of one request have
// met before any of its keys is decided, also where these are in several slots. A receipt of
// a limit that another process has replaced gives nothing back either, as long as
// it names its own limit.
//
// # Starts
//
// What a limit withholds at its start (InitialDeficit, PreFilled) counts from the first
// use of a limit of its scope and name that withholds any, or that this process
// used before. The instant is kept on the server for 400 days from the last use,
// in a key of its own:
//
//	PREFIX{1SCOPE}!start.LIMIT
//
// A process asks for it with the first request, and again once a day. While
// the initial deficit still counts by the server's clock, requests take a second
// round trip. A start that the server has lost is a new one, which is logged, as
// every first start is. One that is ahead of the server's clock counts, and is
// kept, as the clock's now.
//
// # A secret for hashes
//
// For [Store.HashSecret] a server keeps 32 random bytes in hexadecimal, for 400 days
// from the last use, in one key for each prefix:
//
//	PREFIX{1}!secret
//
// # Nothing is charged twice
//
// A script that may have reached the server is never sent again. Without its
// reply the request returns an error, and its outcome is not
// known. Only if the server answers that it ran nothing (NOSCRIPT, MOVED, ASK,
// TRYAGAIN), or not this one of several that shared a call, the request goes out again.
//
// # Callers that leave
//
// A request returns when its context ends. If it was not on its way by then, or
// there is no connection, it never will be, which a [*sluice.NotSentError] says.
// Otherwise its error is a [*sluice.MaybeSentError]: the store waits for the
// answer on, until Options.Timeout is over, and gives back what was spent if its
// caller asks for that. An answer that comes later than that, or whose connection breaks, is
// lost: what it spent counts.
//
// # Keys
//
// A state's key is
//
//	PREFIX{1SCOPE/KEY}LIMIT
//
// with what is special in scope and key escaped as %XX. A key of more than 64
// bytes is replaced by its SHA-256, and every key by a keyed hash if there is an
// Options.Secret, each cut to 144 bits. LIMIT is the limit's name, in which one
// capital stands for an algorithm's name and a dot. The 1 is the version of the
// format. A key expires a second after its state is idle, and a
// state that is so at once is deleted at once.
//
// # Format
//
// A value is
//
//	version, flags, head, state
//
// The version is a byte, 1; the flags are one, too. The head is the limit that wrote
// the state, so that nodes whose configurations differ read each other's states. By
// flags a value holds states of several limits, each behind its own flags and head,
// or says of a bucket since when its balance is and when its last reservation is due.
// A Store decides on no value of another version, nor with a flag that it does not know:
// it returns an error that says what it has found, and changes nothing. Leases of slots
// begin with the version, too.
//
// With a user's key of 16 bytes a token bucket, leaky bucket or fixed window
// takes 120 bytes as MEMORY USAGE reports, a sliding counter up to 152, and a full
// sliding log of 100 units about 950. What a bucket says by its flag takes 14 bytes
// more, for as long as its burst and debt take to come back.
//
// # Failover
//
// Sentinels and the nodes of a Cluster name the server that has taken another's place. A
// single server's address, such as a name, a TCP proxy or a cloud's endpoint, may come to
// lead to another server while the connections to the old one stay. A Store that [Open] has
// made connects anew as soon as the server answers READONLY or MASTERDOWN, or has
// answered LOADING for a second: once about every 350 ms, at most four times a second, until
// the address leads to a server that says in INFO that it takes writes. Until then
// requests return a [*sluice.NotSentError], and [Store.Err] the reason. A client that the program has made is
// connected as its options say: see packages rueidisstore and goredis.
//
// # What the server can lose
//
// Replication is asynchronous: a failover forgets what was charged in its last
// moments, and the limits admit that much more. A server that may evict any key
// when its memory is full (maxmemory-policy allkeys-…) forgets limits; a Store
// warns of it when it is made.
package redisstore
