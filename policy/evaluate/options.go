// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// Options configure an [Evaluator]. Store is required, and one of Rules and Policy; zero
// values of all other fields are valid.
type Options struct {
	// Name begins errors and log lines, such as that of the package that serves the protocol.
	// Empty means "evaluate".
	Name string

	Store sluice.Store
	// Slots keeps the requests in flight. Nil means Store, if it is a [sluice.SlotStore]:
	// then one call decides a request's only slot and its units, unless the request may wait
	// or a candidate is charged as well.
	Slots sluice.SlotStore
	// Rules are the rules to decide by; [policy.Compile] checks them.
	Rules []policy.Rule
	// Policy are compiled rules, such as those of a file that package config has read.
	Policy *policy.Policy
	// Overrides, if not nil, take precedence over the rules' own limits of a key.
	Overrides *Overrides

	// NoBodies refuses rules that shape: the protocol has no bodies to slow down.
	NoBodies bool
	// NoResponses refuses rules that wait for a response or limit requests in flight: the
	// protocol has no response.
	NoResponses bool

	// Trusted are the proxies whose ClientHeader is trusted, which is X-Forwarded-For by
	// default. Without any, the client is the peer.
	Trusted      []netip.Prefix
	ClientHeader string
	// ClientHops, from 1 to 16, is for proxies whose networks are not known, and
	// excludes Trusted: the client's address is the one at this position in ClientHeader,
	// counted from the right, where the nearest proxy appends. With fewer addresses it is
	// the peer's. Clients must reach the server only through that many proxies: otherwise
	// they can choose their address.
	ClientHops int
	// Allow, if not empty, are the only networks whose clients are admitted; clients in
	// Deny are not admitted even so. A client that is not admitted is refused with
	// [ErrNotAdmitted] before anything is decided.
	Allow, Deny []netip.Prefix

	// MaxWait is how long a request may be delayed until it fits, under any algorithm; at
	// most sluice.MaxWait. Zero leaves it to the rules, and to limits that queue, such as
	// a leaky bucket. The least of these applies, and nothing is delayed past the
	// deadline of the request's context.
	MaxWait time.Duration
	// Queue bounds how many requests are delayed at once. Evaluators may share one.
	// Nil means a [Queue] of its own, of 10,000 places.
	Queue *Queue
	// CallerWaits says that Decide does not block: the caller delays a request by
	// Decision.Delay, as a simulation does. There is no Queue then, and slots in flight are not
	// renewed while a request runs.
	CallerWaits bool
	// OnDelay, if not nil, is called when the delay of a request begins. It returns the
	// context of the delay, and a function that is called when the delay is over: for a
	// protocol in which no context ends when the client leaves. If the context's
	// cause is a [*policy.PartError], the request is refused for it.
	OnDelay func(ctx context.Context, a policy.Attributes) (context.Context, func())
	// OnDecision, if not nil, is called once for every request, before it may pass. A
	// delayed request is reported after its delay, and one whose body is charged while it
	// is read by [Call.Settle], as the body may yet be denied. A copy of the Event may be
	// kept. It must be safe for concurrent use and quick.
	OnDecision func(ctx context.Context, a policy.Attributes, e *Event)
	// OnError, if not nil, is called with every error of the store, and of a function of a
	// rule that is not the client's fault. It also receives errors after the response,
	// [ErrExpired] and, with empty attributes, failures to cancel an instant that no
	// request waits for. It must be safe for concurrent use and quick. Nil logs errors to
	// slog.Default, at most one a second.
	OnError func(ctx context.Context, a policy.Attributes, err error)
	// Now is the clock by which overrides expire. With AfterFunc or CallerWaits it is also the
	// clock by which requests are delayed and their time is measured, and with which the
	// deadline of a context is compared. Nil means the machine's.
	Now func() time.Time
	// AfterFunc calls f after d by the clock Now, and returns a function that stops the timer,
	// as time.AfterFunc does: delayed requests wait on it, and slots are renewed by it. Nil
	// means that requests wait by the machine's clock. Evaluators that share a Queue wait by
	// the clock of the first.
	AfterFunc func(d time.Duration, f func()) (stop func() bool)
}

// ErrNotAdmitted is the error of a refused request whose client is not admitted by Allow
// and Deny.
var ErrNotAdmitted = errors.New("requests from this network are not allowed")
