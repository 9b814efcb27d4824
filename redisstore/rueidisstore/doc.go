// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package rueidisstore makes a store of package redisstore over rueidis
// (github.com/redis/rueidis). [Open] opens the store that a URL describes; [New] makes one
// over an existing client of the program, with its TLS, credentials and connections. The
// package is a module of its own, so that only programs that use it compile rueidis.
//
//	store, err := rueidisstore.Open(ctx, os.Getenv("REDIS_URL"), redisstore.Options{})
//
// A program that keeps data of its own on the servers of a URL gets a client of rueidis by
// [ClientOption] and [Connect].
//
// # Failover
//
// Sentinels and the nodes of a Cluster name the server that has replaced another one. The
// address of a single server, such as a name, a TCP proxy or a cloud's endpoint, may lead
// to another server while the connections to the old one remain. A Store of [Open]
// reconnects as soon as the server answers READONLY or MASTERDOWN, or has answered LOADING
// for a second. It tries about every 350 ms, at most four times a second, until the
// address leads to a server that takes writes according to INFO. Until then requests return a
// [*sluice.NotSentError], and [Store.Err] returns the reason. A client of the program's own
// reconnects by its options: see [New].
package rueidisstore
