// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httplimit limits HTTP requests. It is the engine of the gateway, too: a
// request is evaluated by the rules of package policy, and answered, delayed,
// slowed down or passed on by what they say.
//
//	mw, err := httplimit.Limit(store, "api", httplimit.ByIP(), sluice.PerMinute(100))
//	if err != nil { … }
//	http.ListenAndServe(addr, mw.Wrap(mux))
//
// [New] takes [Options] for everything else: rules with several keys and limits, of
// which all or none are charged, soft limits, tiers, rules in shadow and
// candidates, costs in bytes or known only after the response, requests in flight.
// The rules of a file that package config has read are served the same way.
//
// Where no [http.ResponseWriter] sees the outcome of a request, as in many a
// framework, [Middleware.Decide] decides it and [Request.Settle] is given the rest.
//
// # What a client sees
//
//   - A denied request is answered with status 429, or the rule's, Retry-After in
//     whole seconds, never too early, and a problem document (RFC 9457) that names
//     the limits that denied.
//   - A call of gRPC over HTTP/2 is answered by a status of gRPC instead, such as
//     RESOURCE_EXHAUSTED, with grpc-retry-pushback-ms.
//   - Every answer that was decided carries RateLimit-Policy, with all limits, and
//     RateLimit, with the limit that binds, of
//     draft-ietf-httpapi-ratelimit-headers-11; [Fields] has other families.
//   - What went over a soft limit, or is about to reach a limit, is reported in the
//     field RateLimit-Warning.
//   - What is allowed only after a delay is delayed by as long, in a place of a
//     bounded [Queue]; a client that hangs up frees its place and gets its units
//     back.
//   - Bodies whose bytes a rule shapes are slowed down, not cut: see
//     [policy.Rule]. What passes after a switch of protocol counts as the bodies of
//     its request and response, and is slowed down as they are.
//   - A client may ask at [OwnPath] what it has left, if [Options] say so; that
//     charges nothing.
//
// Nothing here reads the body of a request that is not passed on. A server of net/http
// over HTTP/1 reads up to 256 KB of it, and closes the connection of a longer one, half a
// second behind the answer or, if the client asked for that, at once: a client that reads
// an answer only when its upload is sent may get an error in its place.
//
// Limits are named as their rule is, or RULE/LIMIT where a key of the rule is under
// several, with the level between them in a hierarchy.
//
// RateLimit says "at most r units within t seconds", so that a client that
// keeps to it is not denied because of what it did itself: of an allowed
// request r is what remains and t the time, rounded up, until the key is as
// good as new; of a denied one t is the time until the same request fits.
//
// # What is never trusted
//
// No forwarded header is trusted unless it came from a proxy that the [Options]
// list. A key that is sent twice is refused, not guessed at. So is a request whose
// target or host servers read in different ways, and header fields that the
// request's Connection field names are hidden from rules and handlers alike.
package httplimit
