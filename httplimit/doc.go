// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package httplimit limits HTTP requests. It is also the engine of the gateway: a request
// is evaluated by the rules of package policy and then answered, delayed, slowed down or
// passed on.
//
//	mw, err := httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	http.ListenAndServe(addr, mw.Wrap(mux))
//
// [New] takes [Options] for everything else: rules with several keys and limits, charged
// all or none, soft limits, tiers, shadow rules and candidates, costs in bytes or
// known only after the response, and requests in flight. It also takes the rules of a
// file that package config has read.
//
// Keys are those of package policy, such as [policy.IP] and [policy.Header], and [KeyFunc],
// [ByRoute] and [ByPattern] of this package. An empty value is a missing one. A value above
// 8 KiB is refused, and so is one that is sent more than once, or that servers read in
// different ways, since the limiter might then charge one value and the application use
// another. Use a header field only if a trusted peer sets it or it has been verified, and
// [policy.Host] only behind a front that accepts only known hosts.
//
// Many frameworks have no [http.ResponseWriter] that sees the outcome of a request. There
// [Middleware.Decide] decides it, and [Request.Settle] records the outcome.
//
// # What a client sees
//
//   - A denied request is answered with status 429, or the rule's, Retry-After in
//     whole seconds, never too early, and a problem document (RFC 9457) that names
//     the limits that denied.
//   - A gRPC call over HTTP/2 is answered with a gRPC status instead, such as
//     RESOURCE_EXHAUSTED, and grpc-retry-pushback-ms.
//   - Every answer to a decided request carries RateLimit-Policy, with all limits, and
//     RateLimit, with the limit that binds, of
//     draft-ietf-httpapi-ratelimit-headers-11; [Fields] has other families.
//   - The field RateLimit-Warning reports that a request went over a soft limit, or is
//     close to a limit.
//   - A request that may pass only later is delayed in a bounded [evaluate.Queue]; a client that
//     hangs up frees its place and gets its units back.
//   - Bodies under a rule that shapes are slowed down, not cut: see
//     [policy.Rule]. Bytes after a switch of protocols count as the bodies of the
//     request and the response, and are slowed down as these are.
//   - A client may ask for its remaining units: see [Options.OwnLimits].
//
// The package does not read the body of a request that is not passed on. A server of net/http
// over HTTP/1 reads up to 256 KB of it and closes the connection of a longer one, half a
// second after the answer or, if the client asked for that, at once: a client that reads
// the answer only after its upload may get an error instead.
//
// A limit has the name of its rule, or RULE/LIMIT where a key of the rule may have several
// limits, with the level between them in a hierarchy.
//
// RateLimit means "at most r units within t seconds", so that a client that keeps to it
// is not denied because of its own requests. For an allowed request r is the remaining
// units and t the time, rounded up, until the key is full again; for a denied one t is
// the time until the same request fits.
//
// # What is never trusted
//
// No forwarded header is trusted unless it came from a proxy in the [Options].
// A request is refused if its key is sent twice, or if servers read its target or host in
// different ways. Header fields named by the request's Connection field are hidden from
// rules and handlers.
package httplimit
