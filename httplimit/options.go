// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Options say what a [Middleware] does. Store is required, and one of Rules and
// Policy; every other zero field means what it says.
type Options struct {
	Store sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it can.
	Slots sluice.SlotStore

	// Rules are what a request is charged: all that match it, or none. Make one
	// with [policy.NewRule], and set what it is to have beside.
	Rules []policy.Rule
	// Policy are rules that have been compiled already, such as those of a file
	// that package config has read.
	Policy *policy.Policy

	// Skip, if not nil, says which requests are passed on undecided.
	Skip func(*http.Request) bool

	// Trusted are the proxies whose ClientHeader is trusted, by default
	// X-Forwarded-For. None are by default: a client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known: see
	// [policy.FrontOptions].
	ClientHops int
	// Allow, if not empty, are the only networks from which clients are let in;
	// Deny are those from which they are not, whatever Allow says. A client that is turned
	// away is answered with 403 before anything is decided.
	Allow, Deny []netip.Prefix

	// Claims, if not nil, verifies the token of a request and returns what
	// looks its claims up, nil if it has none. It is called once for each
	// request, and only if a rule needs a claim.
	//
	// An error means that the token cannot be used, whatever else is returned:
	// the request is answered with 401. If the returned Lookup fails with a
	// [*policy.TokenError], the response is 401, otherwise 400. The response has
	// the problem of a TokenError and of a [*policy.ClaimError]. For other errors it
	// says that the token cannot be verified, or that the claim cannot be read, and
	// OnError is called with the error.
	Claims func(*http.Request) (policy.Lookup, error)
	// TokenRequired answers a request with 401 that has no token, and for which a
	// rule needs a claim, whatever the rule says of requests without one.
	TokenRequired bool

	// MaxWait is how long a request may be delayed until it fits, whatever
	// the algorithm; at most sluice.MaxWait. Zero leaves it to the rules, and to
	// limits that queue, such as a leaky bucket. The least of all counts, and
	// nothing is delayed past the deadline of the request's context.
	MaxWait time.Duration
	// Queue bounds how many requests are delayed at once. Middlewares may share
	// one. Nil means one of its own, of 10,000 places.
	Queue *policy.Queue
	// ReadAhead bounds how many bytes of bodies are kept while their requests are
	// delayed. Middlewares may share one. Nil means one of its own, of
	// 64 MiB.
	ReadAhead *ReadAhead

	// Fields are the header fields of the answers. Zero means [Draft11]. Those of a
	// rule's [policy.Answer] come besides, and in the place of any of their names.
	Fields Fields
	// Own, if not nil, answers at [OwnPath]: see [NewOwn].
	Own *Own
	// Refuse, if not nil, writes the answer to a request that is not passed on:
	// e.Status says which. The header fields are set already. Nil means
	// [WriteProblem].
	Refuse func(w http.ResponseWriter, r *http.Request, e Event)

	// OnDecision, if not nil, is called once for every request that is not
	// skipped, before it is passed on or answered; for one that is delayed, after
	// that. It is called once more for one that was passed on and whose body is then
	// denied, as a limit has no room for it. It must be safe for concurrent use and
	// should be quick.
	OnDecision func(r *http.Request, e Event)
	// OnEnd, if not nil, is called once for every request that is not skipped, when it
	// is over: answered, settled, and its connection given back if that has switched
	// protocol. That is when the handler has returned or, where a gateway goes on with
	// a request whose client has left, when the response is known. One that
	// [Middleware.Decide] decided is over with Settle or Refuse. It must be safe for
	// concurrent use, quick, and must not panic; r may be read and not changed.
	OnEnd func(r *http.Request, s *Summary)
	// OnError, if not nil, is called with every error of the store, and of a
	// function of the Options that is not the client's fault; also with those
	// after the response, and when a slot in flight has expired. It must be safe
	// for concurrent use and quick. Nil logs them to slog.Default, at most one a
	// second, as are errors that belong to no request: of an instant that nobody
	// waits for any more.
	OnError func(r *http.Request, err error)
	// Now says which overrides have expired. Nil means time.Now.
	Now func() time.Time
}
