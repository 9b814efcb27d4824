// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Options configure a [Middleware]. Store is required, and one of Rules and Policy; zero
// values of all other fields are valid.
type Options struct {
	Store sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it is a [sluice.SlotStore].
	Slots sluice.SlotStore

	// Rules are the rules to decide by. Make one with [policy.NewRule], and set its further
	// fields.
	Rules []policy.Rule
	// Policy are compiled rules, such as those of a file that package config has read.
	Policy *policy.Policy
	// Overrides, if not nil, take precedence over the rules' own limits of a key.
	Overrides *evaluate.Overrides

	// Skip, if not nil, reports whether a request is passed on undecided.
	Skip func(*http.Request) bool

	// Trusted are the proxies whose ClientHeader is trusted, which is X-Forwarded-For by
	// default. Without any, the client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known: see
	// [evaluate.Options].
	ClientHops int
	// Allow, if not empty, are the only networks whose clients are admitted; clients in
	// Deny are not admitted even so. A client that is not admitted is answered with 403
	// before anything is decided.
	Allow, Deny []netip.Prefix

	// Claims, if not nil, verifies the token of a request and returns a Lookup of its
	// claims, nil if the request has no token. It is called once for each
	// request, and only if a rule needs a claim.
	//
	// An error means that the token is not usable, whatever the Lookup: the request is
	// answered with 401. If the Lookup fails with a [*policy.TokenError], the status is 401,
	// otherwise 400. The response has the problem of a TokenError or a [*policy.PartError].
	// For any other error it says that the token cannot be verified, or that the claim
	// cannot be read, and OnError is called with the error.
	Claims func(*http.Request) (func(string) (string, error), error)
	// TokenRequired answers with 401 a request that has no token, if a rule needs a claim,
	// whatever the rule's [policy.Missing] is.
	TokenRequired bool

	// MaxWait is how long a request may be delayed until it fits, under any algorithm; at
	// most sluice.MaxWait. Zero leaves it to the rules, and to limits that queue, such as
	// a leaky bucket. The least of these applies, and nothing is delayed past the
	// deadline of the request's context.
	MaxWait time.Duration
	// Queue bounds the number of requests that are delayed at once. Middlewares may share
	// one. Nil means a new Queue of 10,000 places.
	Queue *evaluate.Queue
	// ReadAhead bounds the bytes of bodies that are kept while their requests are delayed.
	// Middlewares may share one. Nil means a new ReadAhead.
	ReadAhead *ReadAhead

	// Fields are the header fields of the answers. Zero means [Draft11]. Fields of a rule's
	// [policy.Answer] are added, and replace fields of the same names.
	Fields Fields
	// OwnLimits, if not nil, answers a client at /.well-known/ratelimit with the remaining
	// units of its own keys, in JSON: for every rule whose key that request has, whatever paths
	// and methods the rule matches. None of these keys is charged; each question is charged to
	// the client's address under this Limiter. A budget of all clients, or of all of one host, is
	// not a client's own and not shown, nor are shadow rules, candidates and limits of requests
	// in flight.
	OwnLimits *sluice.Limiter
	// Refuse, if not nil, writes the answer to a request that is not passed on, with
	// e.Status. The header fields are already set. Nil means [WriteProblem].
	Refuse func(w http.ResponseWriter, r *http.Request, e Event)

	// OnDecision, if not nil, is called once for every request that is not skipped, before
	// it is passed on or answered, and after any delay. It is called again for a
	// request that was passed on and whose body is then denied. It must be safe for
	// concurrent use and quick.
	OnDecision func(r *http.Request, e Event)
	// OnEnd, if not nil, is called once for every request that is not skipped, when it is
	// over, answered and settled: when the handler has returned, even after a switch of
	// protocols, or, if a gateway continues a request whose client has left, when the
	// response is known. A request decided by [Middleware.Decide] is over with
	// Settle or Refuse. OnEnd must be safe for concurrent use and quick, and must not panic; r
	// must not be changed.
	OnEnd func(r *http.Request, s *Summary)
	// OnError, if not nil, is called with every error of the store, and of a function of the
	// Options that is not the client's fault. It also receives errors after the response, and
	// [evaluate.ErrExpired]. It must be safe for concurrent use and quick. Nil logs errors to
	// slog.Default, at most one a second. Errors without a request, of canceling an instant
	// that no request waits for, are always logged.
	OnError func(r *http.Request, err error)
	// Now is the clock by which overrides expire. Requests wait by the machine's clock. Nil
	// means time.Now.
	Now func() time.Time
}
