// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package redisstore keeps the states of a rate limiter on a Redis server from
// 7.0 on, or Valkey from 8 on: a [sluice.Store] and [sluice.SlotStore] that any
// number of processes share. The server may be a single one, one that Sentinels
// watch, or a Cluster.
//
// # Decisions
//
// A request is decided by one script on the server, at the server's time, as
// package algo decides it; the script returns the state that it found, and algo
// works out from it what else there is to say. All limits of a key are in one
// hash slot and in one script. Requests for different keys share a pipeline, and
// those for one key and plan that come while one is on its way share the next
// call. So a clock of this machine that is wrong changes nothing.
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
// A limit whose Quota or Burst together with its Debt is more than 2^53 - 1
// units is decided in this process on the server's state, in two round trips.
//
// # Nothing is charged twice
//
// A script that may have reached the server is never sent again, whatever
// became of its reply: the request returns an error, and its outcome is not
// known. Only where the server says that it ran nothing (NOSCRIPT, MOVED, ASK,
// TRYAGAIN) the request goes out again.
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
// format. A key expires a second after its state is as good as never seen, and a
// state that is so at once is deleted at once.
//
// A value begins with the limit that wrote it. If that has been changed since,
// what it still counts is carried over by the first request that is not a peek.
//
// With a user's key of 16 bytes a token bucket, leaky bucket or fixed window
// takes 120 bytes as MEMORY USAGE tells, a sliding counter up to 152, and a full
// sliding log of 100 units about 950.
//
// # What the server can lose
//
// Replication is asynchronous: a failover forgets what was charged in its last
// moments, and the limits admit that much more. A server that may evict any key
// when its memory is full (maxmemory-policy allkeys-…) forgets limits; a Store
// warns of it when it is made.
package redisstore
