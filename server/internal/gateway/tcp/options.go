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

	// MaxConnections bounds the connections in all. Zero means 10,000. Connections above it
	// wait in the system's queue.
	MaxConnections int
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

	gate *Gate // gets the admitted connections in the place of an upstream; nil with an upstream
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
