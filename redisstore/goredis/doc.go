// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package goredis has a store of package redisstore use an existing go-redis
// client (github.com/redis/go-redis/v9): one of a single server, of the master that
// Sentinels name, or of a Cluster. All that package redisstore says of decisions,
// keys and formats holds: processes that use rueidis share budgets with those that
// use go-redis. It is a module of its own, so that go-redis is compiled by programs that use
// it.
//
// # Which client
//
// A program with a go-redis client, with its TLS, credentials, hooks and metrics, gives
// that. A program without one opens a store with [redisstore.Open]. Over rueidis all requests
// of a process share one connection, on which it also puts together what goes to a
// node of a Cluster. go-redis has a connection for each call that is under way; the
// store sends what comes at the same time as one pipeline, but not to a Cluster,
// where each request is a call of its own. Measured side by side on two shared
// cores, see bench/results: by 64 goroutines this process spends 1.2 to 1.3 times
// the CPU time that it does over rueidis, and the server 1.1 times; on one hot key
// 1.0 to 1.4 times. One request at a time takes 15 to 18 µs longer and twice the
// CPU time, with ContextTimeoutEnabled 3 µs and 1.1 to 1.2 times. A decision makes
// 12 to 17 allocations more.
//
// # What is sent, and when
//
// By default go-redis sends a command again when its connection breaks, and a
// pipeline when its first command is refused for now. A script would charge twice.
// The commands of the store forbid that, whatever the client's options are, which
// stay as they are for its other users. go-redis follows MOVED and ASK, and where
// servers say READONLY or LOADING, having run nothing, a Cluster client may ask
// again.
//
// What waits for a connection when its time is over, or is refused one (as by
// PoolTimeout), is known not to be sent: a [*sluice.NotSentError]. It is not sent
// later either, when there is a connection for it at last.
//
// A request ends with redisstore's Options.Timeout, however long the client's own
// timeouts are. By default go-redis goes on to wait for the answer for its
// ReadTimeout, five seconds, and keeps the connection for so long: when a network
// swallows what is sent, all PoolSize connections may be kept, and the first
// requests after that are NotSentErrors. Set ContextTimeoutEnabled, or a short
// ReadTimeout.
//
// # Failover
//
// A Sentinel client is notified of a new master by the sentinels. A Cluster client asks
// once a minute for the owners of the slots: the store has it ask as soon as a server does
// not answer. In the tests, requests go to the new master 2 to 42 ms after the
// sentinels have named it, and 0.5 to 1.6 s after a Cluster is whole again; over
// rueidis the latter took 0.1 to 1.7 s. Where no server can be dialled for as often as there are
// connections in the pool, go-redis tries again once a second.
//
// Behind one address, such as a name or a TCP proxy, that has come to lead to another server, a
// go-redis client by itself leaves a connection whose server says READONLY: one request
// fails for each. It keeps those whose server says MASTERDOWN or LOADING, until its
// ConnMaxLifetime has passed, which has no end by default: set it to a second or some.
// [redisstore.Open] connects anew on all three.
//
// # What it does not do
//
// It refuses a Ring, which gives the keys of a server that does not answer to
// others, where budgets start anew. It closes no client. Clients that read from
// replicas (ReadOnly, RouteByLatency, RouteRandomly, [redis.NewFailoverClusterClient])
// send scripts to masters. Over the last of them a request for several keys is
// decided as in a Cluster, by several calls: give [redis.NewFailoverClient]. A
// client with ReplicaOnly can decide nothing: the server says READONLY.
package goredis
