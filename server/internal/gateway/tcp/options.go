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
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice"
)

// Options are the options of a [Server]. Upstream is required.
type Options struct {
	// Upstream is the host:port of the upstream.
	Upstream string

	// Store decides Rate and Bytes, and is required for either.
	Store sluice.Store
	// SlotStore decides Open, and is required for it.
	SlotStore sluice.SlotStore
	// Limits are the limits for each client. [Server.Change] replaces them.
	Limits

	// DecisionTimeout bounds each call of the store. Zero means 1 s.
	DecisionTimeout time.Duration

	// MaxConnections bounds the connections in all. Zero means 10,000. Connections above it
	// wait in the system's queue.
	MaxConnections int
	// Places, if not nil, bounds the connections of several servers together. Connections
	// above it are reset.
	Places *Places
	// MaxDelay is how long bytes may be delayed before the connection is closed; at most
	// sluice.MaxWait. Zero means 5 minutes.
	MaxDelay time.Duration
	// IdleTimeout ends a connection on which no byte moves. Zero means 10 minutes. It also
	// bounds how long a peer may read nothing.
	IdleTimeout time.Duration
	// DialTimeout bounds the connection to the upstream, and the client's TLS handshake, if
	// any. Zero means 5 s.
	DialTimeout time.Duration
	// Dial, if not nil, connects to the upstream. Nil means [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// OnDecision, if not nil, is called once for every connection with a known client, or
	// without a place in Places. It must be safe for concurrent use and should be quick.
	OnDecision func(Event)
	// Log receives failures, at most one a second. Nil means [slog.Default].
	Log *slog.Logger

	gate *Gate // gets the admitted connections in the place of an upstream; nil with an upstream
}

// fill checks o and sets the defaults. All faults are returned at once.
func (o *Options) fill() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("tcp: "+format, args...)) }
	if o.MaxConnections < 0 {
		fault("MaxConnections: %d is negative; leave it 0 for 10000", o.MaxConnections)
	}
	if o.MaxConnections == 0 {
		o.MaxConnections = 10_000
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"DecisionTimeout", &o.DecisionTimeout, time.Second},
		{"MaxDelay", &o.MaxDelay, 5 * time.Minute},
		{"IdleTimeout", &o.IdleTimeout, 10 * time.Minute},
		{"DialTimeout", &o.DialTimeout, 5 * time.Second},
	} {
		if *d.value < 0 {
			fault("%s: %v is negative; leave it 0 for %v", d.name, *d.value, d.def)
		}
		if *d.value == 0 {
			*d.value = d.def
		}
	}
	if o.MaxDelay > sluice.MaxWait {
		fault("MaxDelay: %v must be at most %v", o.MaxDelay, sluice.MaxWait)
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return errors.Join(faults...)
}

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
