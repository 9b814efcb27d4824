// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httplimit limits HTTP requests: a wrapper for any [http.Handler],
// the keys that say whose budget a request draws on, and the answers that tell
// a client where it stands.
//
//	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(100))
//	if err != nil { … }
//	http.ListenAndServe(addr, mw.Wrap(mux))
//
// [New] takes [Options] for everything else: several limits of several keys
// that a request must all pass or none is charged, costs in bytes or from a
// header, costs known only after the response, shadow mode, hooks.
//
// # What a client sees
//
// A denied request is answered with status 429, Retry-After in whole seconds,
// never too early, and a problem document (RFC 9457) that names the limits
// that denied. Every answer that was decided carries RateLimit-Policy, with
// all limits, and RateLimit, with the limit that binds, of
// draft-ietf-httpapi-ratelimit-headers-11; [Fields] has other families.
//
// RateLimit says "at most r units within t seconds", so that a client that
// keeps to it is not denied because of what it did itself: of an allowed
// request r is what remains and t the time, rounded up, until the key is as
// good as new; of a denied one t is the time until the same request fits.
//
// # What is never trusted
//
// No forwarded header is believed unless it came from a proxy that [ClientIP]
// lists. A key that is sent twice is refused, not guessed at.
package httplimit
