// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package grpclimit limits the calls of a gRPC server, by the rules of package
// policy, as package httplimit limits HTTP requests.
//
//	lim, err := grpclimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	srv := grpc.NewServer(lim.ServerOptions()...)
//
// [New] takes [Options] for everything else: several keys and limits, of which all
// or none are charged, costs, calls in flight, rules that count only some codes,
// and rules for each message of a stream. [NewClient] is the client's end.
//
// # What a rule sees of a call
//
//   - Its path is the full method, "/package.Service/Method", its method POST, and
//     its host what the client dialled: one file of rules serves HTTP and gRPC.
//     [ByMethod] is a key of the full method.
//   - Header fields are the metadata of the call.
//   - The client's address is the peer's, or what a trusted proxy says in metadata.
//   - Claims are what Options.Claims finds, mostly where an interceptor before this
//     one has left the verified token.
//   - [KeyFunc], and a cost that is a function, see the message itself: [CallOf].
//   - There are no query parameters, and no cookies.
//   - Bytes are those of the messages, decoded.
//
// A rule's When names HTTP's statuses: [Statuses] has those of gRPC's codes. A call
// whose client has left before the answer counts whatever its code is.
//
// # What a client sees
//
// A denied call ends with RESOURCE_EXHAUSTED, whose details are a RetryInfo, unless
// nobody knows how long to wait, and a QuotaFailure that names the limits. Its
// trailer has grpc-retry-pushback-ms, which grpc-go's retries obey: "-1" where no
// wait would help. ratelimit and ratelimit-policy are there, too, as HTTP has them.
// other outcomes of a call:
//
//	INVALID_ARGUMENT    it has no usable key
//	UNAUTHENTICATED     its token cannot be used, or it needs one
//	PERMISSION_DENIED   its network is not let in
//	UNAVAILABLE         the store failed, and a rule is closed then; or too many wait
//	CANCELED, DEADLINE_EXCEEDED   it ended before its turn came
//
// # What is not limited
//
// Interceptors see a unary call when its message has been read, so that a large one
// has cost its memory by then: set grpc.MaxRecvMsgSize. Calls of methods that the
// server does not have reach no interceptor. Rules that shape are refused.
package grpclimit
