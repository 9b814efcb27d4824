// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp passes TCP connections on to one upstream, byte for byte, under limits for each
// client network: connections opened per time, connections open at once, and bytes per time.
//
// The first two deny: a connection above them is reset before the upstream sees it. The third
// shapes: bytes are delayed until they fit, and none is lost. The limits are those of package
// sluice, in the same text form and on the same stores, so that several servers can share
// them.
//
// A [Server] accepts connections from any [net.Listener]: one of package proxyproto for the
// addresses of clients behind a proxy, or of crypto/tls for TLS.
package tcp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
)

// Options are the options of a [Server]. Upstream and Limits.Key are required.
type Options struct {
	// Upstream is the host:port of the upstream. A [Gate] has none.
	Upstream string

	// Store decides Rate and Bytes, and is required for either.
	Store sluice.Store
	// SlotStore decides Open, and is required for it.
	SlotStore sluice.SlotStore
	// Limits are the limits for each client. [Server.Change] replaces them.
	Limits

	// Places, if not nil, bounds the connections of several servers together. Connections
	// above it are reset.
	Places *Places
	// Dial, if not nil, connects to the upstream. Nil means [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// OnDecision, if not nil, is called once for every connection with a known client, or
	// without a place in Places. It must be safe for concurrent use and should be quick.
	OnDecision func(Event)
	// Log receives failures, at most one a second. Nil means [slog.Default].
	Log *slog.Logger

	gate *Gate // gets the admitted connections instead of an upstream; nil with an upstream
}

const (
	// decisionTimeout bounds each call of the store.
	decisionTimeout = time.Second
	// maxDelay is how long bytes may be delayed before the connection is closed.
	maxDelay = 5 * time.Minute
	// idleTimeout ends a connection on which no byte moves. It also bounds how long a peer may
	// read nothing.
	idleTimeout = 10 * time.Minute
	// dialTimeout bounds the connection to the upstream, and the client's TLS handshake, if any.
	dialTimeout = 5 * time.Second
)

// Verdict is the decision about a connection.
type Verdict uint8

// The verdicts.
const (
	// Allowed means passed on to the upstream.
	Allowed Verdict = iota
	// DeniedClient means refused by Admit.
	DeniedClient
	// DeniedRate means refused by Rate.
	DeniedRate
	// DeniedOpen means refused by Open.
	DeniedOpen
	// DeniedFull means that no place was free: the client is not known.
	DeniedFull
	// Undecided means reset after an error of the store, with FailClosed.
	Undecided
)

// String returns "allowed", "denied-client", "denied-rate", "denied-open",
// "denied-full" or "undecided".
func (v Verdict) String() string {
	names := [...]string{"allowed", "denied-client", "denied-rate", "denied-open", "denied-full", "undecided"}
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("Verdict(%d)", uint8(v))
}

// Event is a [Server]'s decision about a connection.
type Event struct {
	Client  netip.Addr
	Key     string
	Verdict Verdict
	// Limit is the name of the limit that denied, or empty.
	Limit string
	// RetryAfter is the time until the next connection fits, or 0 if no limit denied.
	RetryAfter time.Duration
}

// Limits are a [Server]'s limits for each client, as package config has checked them. Limits
// with a Key alone admit everything.
type Limits struct {
	// Rate, if not nil, is charged 1 for every connection. A connection is admitted at once or
	// not at all, so a leaky bucket must not delay: nodelay.
	Rate *sluice.Plan
	// Bytes, if not nil, is charged every byte that passes, in both directions, over all
	// connections of a key. Each of its limits must grant many at once, so that bytes need
	// not go one by one.
	Bytes *sluice.Plan
	// Open bounds the connections of a key at once; a Cap of 0 means any number. A TTL of 0
	// means a minute: after it the connections of a crashed server count no more.
	Open sluice.SlotLimit
	// Scope names the budget of Open.
	Scope string

	// Key returns the key to which a client is charged.
	Key func(netip.Addr) string
	// Exempt, if not nil, reports whether a client has no limits.
	Exempt func(netip.Addr) bool
	// Admit, if not nil, reports whether a client is admitted at all.
	Admit func(netip.Addr) bool
	// MaxConnections bounds the admitted connections of all clients at once; 0 means any number.
	// Connections above it are reset, as those above Options.Places are.
	MaxConnections int64
	// FailClosed resets connections that could not be decided for an error of the store. By
	// default they pass, with their bytes.
	FailClosed bool
}

// terms are an upstream and limits. They are immutable: a change replaces them.
type terms struct {
	Limits
	upstream string
	slots    *sluice.Slots // nil: any number
	chunk    int           // most bytes at once
}

// newTerms returns the terms of an upstream and limits.
func newTerms(o *Options, upstream string, l Limits) (t *terms, err error) {
	l.Open.TTL = cmp.Or(l.Open.TTL, time.Minute)
	t = &terms{Limits: l, upstream: upstream, chunk: chunkOf(l.Bytes)}
	if l.Open.Cap != 0 {
		if t.slots, err = sluice.NewSlots(o.SlotStore, l.Scope, l.Open); err != nil {
			return nil, fmt.Errorf("tcp: open: %w", err)
		}
	}
	return t, nil
}

// exempt reports whether a client has no limits.
func (t *terms) exempt(client netip.Addr) bool { return t.Exempt != nil && t.Exempt(client) }

// eachTerm returns the terms of a plan, which may be nil.
func eachTerm(p *sluice.Plan) func(yield func(*sluice.Term) bool) {
	return func(yield func(*sluice.Term) bool) {
		for i := 0; p != nil && i < p.Len(); i++ {
			if !yield(p.Term(i)) {
				return
			}
		}
	}
}

// Prepare returns a function that replaces the upstream and the limits. They apply to new
// connections; existing ones keep their upstream and their slot, and their further bytes are
// under the new limits. After an error nothing has changed.
func (s *Server) Prepare(upstream string, l Limits) (use func(), err error) {
	t, err := newTerms(&s.opts, upstream, l)
	if err != nil {
		return nil, err
	}
	return func() { s.terms.Store(t) }, nil
}
