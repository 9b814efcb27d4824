// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package goredis makes a store of package redisstore over an existing go-redis client
// (github.com/redis/go-redis/v9): a client of a single server, of the master that Sentinels
// name, or of a Cluster. Decisions, keys and formats are those of package redisstore, so
// processes that use rueidis share budgets with those that use go-redis. The package is a
// module of its own, so that only programs that use it compile go-redis.
//
// # Which client
//
// A program that has a go-redis client, with its TLS, credentials, hooks and metrics, passes
// that to [New]. A program without one opens a store with package rueidisstore. With rueidis
// all requests of a process share one connection, which also combines the requests to a
// node of a Cluster. go-redis uses a connection for each call under way. The store sends
// requests that come at the same time as one pipeline, except to a Cluster, where each
// request is a call of its own. Measured side by side on two shared cores, see
// bench/results: with 64 goroutines this process spends 1.2 to 1.3 times the CPU time that
// it does over rueidis, and the server 1.1 times; on one hot key 1.0 to 1.4 times. One
// request at a time takes 15 to 18 µs longer and twice the CPU time, with
// ContextTimeoutEnabled 3 µs and 1.1 to 1.2 times. A decision makes 12 to 17 allocations
// more.
//
// # What is sent, and when
//
// By default go-redis sends a command again when its connection breaks, and a pipeline when
// its first command is refused temporarily. A script would then charge twice. The store's
// commands forbid that, whatever the client's options are; the options do not change for
// other users of the client. go-redis follows MOVED and ASK. If servers answer READONLY or
// LOADING, and so have run nothing, a Cluster client may send a command again.
//
// If a request's time ends while it waits for a connection, or it is refused one (as by
// PoolTimeout), it returns a [*sluice.NotSentError]. It is not sent later either, when a
// connection becomes free.
//
// A request ends with redisstore's Options.Timeout, however long the client's own timeouts
// are. By default go-redis waits on for the answer for its ReadTimeout, five seconds, and
// occupies the connection meanwhile. If a network drops packets, all PoolSize connections
// may be occupied, and the first requests after that return NotSentErrors. Set
// ContextTimeoutEnabled, or a short ReadTimeout.
//
// # Failover
//
// The sentinels notify a Sentinel client of a new master. A Cluster client asks once a
// minute for the owners of the slots; the store makes it ask as soon as a server does not
// answer. In the tests, requests go to the new master 2 to 42 ms after the sentinels have
// named it, and 0.5 to 1.6 s after a Cluster is complete again; over rueidis the latter
// took 0.1 to 1.7 s. After as many failed dials as the pool has connections, go-redis
// tries again once a second.
//
// If one address, such as a name or a TCP proxy, leads to another server after a failover,
// a go-redis client closes a connection whose server answers READONLY: one request fails
// for each. It keeps connections whose server answers MASTERDOWN or LOADING until its
// ConnMaxLifetime has passed, which is unlimited by default: set it to a second or a few.
// A Store of rueidisstore.Open reconnects on all three answers.
//
// # Limitations
//
// [New] refuses a Ring: it moves the keys of a server that does not answer to other
// servers, where budgets start anew. The store closes no client. Clients that read from
// replicas (ReadOnly, RouteByLatency, RouteRandomly, [redis.NewFailoverClusterClient])
// send scripts to masters. A client of NewFailoverClusterClient decides a request for several
// keys by several calls, as in a Cluster: use [redis.NewFailoverClient] instead. A client with
// ReplicaOnly can decide nothing: the server answers READONLY.
package goredis
