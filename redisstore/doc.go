// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps the states of a rate limiter on a Redis server from
// 7.0 on, or Valkey from 8 on: a [sluice.Store] and [sluice.SlotStore] that any
// number of processes share. The server may be a single one, one that Sentinels
// watch, or a Cluster.
//
//	store, err := rueidisstore.Open(ctx, os.Getenv("REDIS_URL"), redisstore.Options{})
//
// A Store reaches its servers by a [Client]. Package rueidisstore opens a Store by a URL, and
// makes one over a rueidis client of the program. Package goredis makes one over a go-redis
// client. Both are modules of their own: this package compiles no other module. Package remote
// decides requests while the servers are unavailable.
//
// # Decisions
//
// A request is decided by one script on the server, at the server's time, as package algo
// decides it. The script returns the state that it found, from which algo computes the
// rest of the decision. So a wrong clock of this machine has no effect. All limits of a
// key are in one hash slot and in one script, and so is the slot of a request. Requests
// for different keys share a pipeline and, outside a Cluster, takes of one cost under
// equal limits share a call of up to 12 keys. Requests for one key and plan that come
// while one is on its way share the next call.
//
// The server's clock may step back, or a replica whose clock is behind may become the
// primary. Then a state that is further ahead than its limit allows becomes empty, without
// debt: further than (Burst+Debt)/rate or a window, and MaxWait more if units are
// reserved. Until then a key that had units left waits for a window at most or, with a
// debt, until (Burst+Debt)/rate has passed. Each such step back may grant a key the units
// of a new key once more.
//
// A script decides on states that its own limit wrote. All others are decided in this
// process, on the values of the server, which are then replaced unless they have changed
// meanwhile. That takes a second round trip, and more if several processes change the
// same key. The next sections say when that happens.
//
// For keys in several slots of a Cluster there is no script: see [Store.Take]. Such a
// request peeks at all keys first. If one denies, nothing is written. Otherwise the keys
// are charged one after the other, and the charges are undone if one denies after all.
// Other requests may be denied meanwhile; nothing is admitted twice. The receipt of such
// a decision names one instant, the earliest of the nodes' clocks. If these differ by
// more than a second, or requests conflict, a sliding log on another node may not find
// the units again and keeps them counted.
//
// If a script cannot decide a whole request, the slot is acquired first, and released if
// the units are denied or fail. Other requests may be denied that slot meanwhile.
//
// # When a limit changes
//
// A state belongs to a scope, a key and the name of a limit, whichever node wrote it:
// limits of one name share the debt of a key, as in package algo. Limits that differ in
// quota share one state. The first request under the new limit that changes the state
// takes a second round trip; while processes with both limits are in use, each request
// does. Limits whose windows or algorithms differ have states of their own, up to 4 in
// one value. While more than one of them lives, all requests for that key take a second
// round trip. A denial writes nothing.
//
// If a process has met several limits of a scope and name, as plans or overrides that
// differ in quota, it stores the start of each new balance, so that receipts of the other
// limits refund nothing to it. The limits of one request are all met before any of its
// keys is decided, even over several slots. A receipt of a limit that another process has
// replaced refunds nothing either, as long as it names its own limit.
//
// # Holds
//
// The holds of a key under a limit are in a hash, in the slot of the key:
//
//	PREFIX{1SCOPE/KEY}LIMIT!!holds
//
// They are decided in this process, too. A request that names a hold takes two round trips,
// and so does each request of a key with open holds; requests that wait for each other on one
// key share them. The hash has a field for each hold and one for their numbers, and expires
// when no id must be kept and no unit of an open hold counts any more. A state with open holds
// has a flag and the instant of the next end. If the server loses the state, they give
// nothing back; if it loses the hash, a settle charges in full.
//
// # Starts
//
// An initial deficit (InitialDeficit, PreFilled) counts from the first use of a limit of
// its scope and name that has one, or that this process used before. The instant is kept
// on the server for 400 days from the last use, in a key of its own:
//
//	PREFIX{1SCOPE}!start.LIMIT
//
// A process reads it with the first request, and again once a day. While the initial
// deficit counts by the server's clock, requests take a second round trip. If the server
// has lost a start, a new one is recorded and logged, like every first start. A start
// ahead of the server's clock is replaced by the clock's instant.
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
// A script that may have reached the server is never sent again. Without its reply the
// request returns an error, and its outcome is unknown. A request is sent again only if
// the server answers that it ran nothing (NOSCRIPT, MOVED, ASK, TRYAGAIN), or did not run
// this one of several requests in a call.
//
// # Callers that leave
//
// A request returns when its context ends. If it was not sent by then, or there is no
// connection, it returns a [*sluice.NotSentError] and is never sent. Otherwise its error
// is a [*sluice.MaybeSentError]: the store waits for the answer until Options.Timeout is
// over, and gives back the spent units if the caller asks for that. If the answer comes
// later, or the connection breaks, the units stay spent.
//
// # Keys
//
// A state's key is
//
//	PREFIX{1SCOPE/KEY}LIMIT
//
// with the special bytes of scope and key escaped as %XX. A key of more than 64 bytes is
// replaced by its SHA-256, and every key by a keyed hash if there is an Options.Secret,
// each cut to 144 bits. LIMIT is the limit's name, in which one capital stands for an
// algorithm's name and a dot. The 1 is the version of the format. A key expires a second
// after its state becomes idle; a state that a request leaves idle is deleted.
//
// # Format
//
// A value is
//
//	version, flags, head, state
//
// The version is a byte, 1, and the flags are a byte. The head is the limit that wrote
// the state, so that nodes whose configurations differ read each other's states. One flag
// marks a value with states of several limits, each after its own flags and head. Another
// marks a bucket with two instants: the start of its balance and the end of its last
// reservation. A Store changes no value of another version or with an unknown flag: it
// returns an error that names the version or the flags. Leases of slots begin with the
// version, too.
//
// With a user's key of 16 bytes a token bucket, leaky bucket or fixed window takes 120
// bytes of MEMORY USAGE, a sliding counter up to 152, and a full sliding log of 100 units
// about 950. The two instants of a bucket take 14 bytes more, until its burst and debt
// are refilled.
//
// # Failover
//
// Sentinels and the nodes of a Cluster name the server that has replaced another one. The
// address of a single server may lead to another server while the connections to the old one
// remain. Packages rueidisstore and goredis document when their clients reconnect. A server
// that takes no writes decides nothing: its answer is the error of a request.
//
// # What the server can lose
//
// Replication is asynchronous: a failover loses the last charges before it, and the limits
// admit that much more. A server that may evict any key when its memory is full
// (maxmemory-policy allkeys-…) loses states; a Store logs a warning when it is made.
package redisstore
