// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sluice is a rate limiter: it decides whether work may run now.
//
// A [Limit] is a rule, such as 5 requests per minute for each key. A [Store] keeps what
// keys have spent, and decides. A [Limiter] joins the two for one scope, the name
// under which limiters share counters:
//
//	store := memstore.New(memstore.Options{})
//	login, err := sluice.New(store, "login", sluice.PerMinute(5))
//	…
//	d, err := login.Take(ctx, userID, 1)
//	switch {
//	case err != nil: // no decision: continue without one, or refuse
//	case !d.Allowed: // come back after d.RetryAfter
//	}
//
// # Packages
//
//   - memstore keeps states in this process, redisstore on Redis or Valkey, and remote
//     wraps a store far away with a deadline, a breaker and a [Failure] policy.
//   - httplimit, grpclimit and httpclient limit requests to HTTP and gRPC services and
//     those of a client.
//   - policy says which requests are charged to which keys under which limits, config
//     reads that from a file, and metrics counts its result.
//   - algo computes the decisions and their bounds, and storetest checks that a
//     store of your own decides the same.
//
// # Calls
//
// [Limiter.Allow] answers yes or no for 1 unit, [Limiter.Take] returns a [Decision], and
// [Limiter.Wait] blocks until the units are spent. [Limiter.Reserve] spends them ahead, and
// [Limiter.Cancel], [Limiter.Refund] and [Limiter.Settle] give back by the receipt of a
// Decision. [Limiter.Hold] spends units that are settled under an id, or come back by
// themselves if this process dies. [TakeAll] charges several keys or none. [Slots] cap the
// requests in flight. [ParseLimit] reads limits from text, such as "100/min burst 20", and
// [Observe] calls hooks with each request and its outcome.
//
// # Decisions and errors
//
// A denial is a [Decision] and no error: it says which limit binds and after how long
// the same cost would fit. That is [MaxRetryAfter] at most; TooLarge is set if no wait helps.
// An error means that there is no decision. [Store] lists the types of errors, which tell
// whether units may have been spent.
//
// # Arithmetic
//
// Time is counted in whole µs and units in integers; no decision is rounded, and every
// store makes the same one. Package algo states the most that each [Algorithm] admits in any
// span of time, and docs/algorithms.md draws it.
package sluice
