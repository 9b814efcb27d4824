// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package guard stands between clients and a gateway and lets through what a
// policy allows: it turns a [policy.Verdict] into what HTTP has for it.
//
//   - A denial is answered with the rule's status, 429 by default, the RateLimit
//     fields of the limit that binds, Retry-After, and a problem document that
//     names what was violated.
//   - What is allowed only after a delay is held back for as long, in a place of
//     a bounded queue; a client that hangs up frees its place and gets its units
//     back.
//   - What went over a soft limit, or is about to reach a limit, is told so in
//     the field RateLimit-Warning.
//   - What a request has cost is settled after its response, and its slots in
//     flight are renewed while it runs.
//   - Bodies whose bytes a rule shapes are slowed down, not cut: see [policy.Rule].
//   - What passes after a switch of protocol counts as the bodies of its request
//     and response, and is slowed down as they are.
//   - A client may ask at [OwnPath] what it has left; that charges nothing.
//
// Clients may be turned away by their network before anything is decided.
//
// Limits are named RULE, or RULE/LIMIT where a rule has several, with the level
// between them in a hierarchy.
package guard
