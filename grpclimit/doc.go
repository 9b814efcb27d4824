// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package grpclimit limits the calls of a gRPC server by the rules of package policy, as
// package httplimit limits HTTP requests.
//
//	lim, err := grpclimit.Limit(store, "api", policy.IP(), sluice.PerMinute(100))
//	if err != nil { … }
//	srv := grpc.NewServer(lim.ServerOptions()...)
//
// [New] takes [Options] for everything else: several keys and limits, charged all or
// none, costs, calls in flight, rules that count only some codes, and rules for each message
// of a stream. [NewClient] returns the interceptors of a client.
//
// # Calls in rules
//
//   - The path is the full method, "/package.Service/Method", the method POST, and the
//     host the one that the client dialled: one file of rules serves HTTP and gRPC.
//     [ByMethod] is a key of the full method.
//   - Header fields are the metadata of the call.
//   - The client's address is the peer's, or the one that a trusted proxy sends in metadata.
//   - Claims come from Options.Claims, usually out of the context in which an earlier
//     interceptor has left the verified token.
//   - [KeyFunc], and a cost that is a function, see the message itself: [CallOf].
//   - There are no query parameters, and no cookies.
//   - Bytes are those of the decoded messages.
//
// A rule's When names HTTP statuses: [Statuses] returns those of gRPC codes. A call whose
// client has left before the answer counts with any code.
//
// # Answers to clients
//
// A denied call ends with RESOURCE_EXHAUSTED, whose details are a RetryInfo, unless the time
// is not known, and a QuotaFailure that names the limits. Its trailer has
// grpc-retry-pushback-ms, which grpc-go's retries obey ("-1" if no wait would help), and
// ratelimit and ratelimit-policy, as in HTTP. The other codes are:
//
//	INVALID_ARGUMENT    it has no usable key
//	UNAUTHENTICATED     its token is not usable, or it lacks one
//	PERMISSION_DENIED   its network is not admitted
//	UNAVAILABLE         the store failed under a closed rule, or the queue is full
//	CANCELED, DEADLINE_EXCEEDED   it ended before it was decided or could pass
//
// # Limitations
//
// Interceptors see a unary call when its message has been read and has taken its memory: set
// grpc.MaxRecvMsgSize. Calls of methods that the server does not have reach no interceptor.
// Rules that shape are refused.
package grpclimit
