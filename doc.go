// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package sluice decides whether work may run now: it is the vocabulary of a
// rate limiter, and the few calls that most programs need of it.
//
// A [Limit] is a rule, such as 100 units per minute for each key. A [Store]
// keeps what the keys have spent and decides; package memstore is one in this
// process. A [Limiter] joins the two:
//
//	lim, err := sluice.New(memstore.New(memstore.Options{}), "login", sluice.PerMinute(5))
//	…
//	d, err := lim.Take(ctx, userID, 1)
//
// A denial is a [Decision], not an error: it says which limit binds and after
// how long the same cost would fit. An error means that there is no decision,
// and the caller chooses whether to go on without one.
//
// Time is counted in whole µs and units in integers; no decision is rounded.
// What each [Algorithm] promises, and the most that it admits in any span of
// time, is stated in package algo and drawn in docs/algorithms.md. To limit
// HTTP requests see package httplimit.
package sluice
