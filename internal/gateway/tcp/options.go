// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package tcp passes TCP connections on to one upstream, byte for byte, under
// limits of each client network: how many connections it may open per time,
// how many it may hold at once, and how many bytes may pass per time.
//
// The first two deny: a connection above them is reset before the upstream
// hears of it. The third shapes: bytes wait until they fit, and no byte is
// lost. The limits are those of package sluice, in the same words, on the same
// stores, so that several front servers can share them.
//
// A [Server] takes its connections from any [net.Listener]: one of package
// proxyproto for the addresses of clients behind a proxy, or of crypto/tls to
// end TLS here.
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

// Options say where connections go and what limits them. Upstream is required.
type Options struct {
	// Upstream is the host:port to which connections are passed on.
	Upstream string

	// Store decides Rate and Bytes, and is required for either.
	Store sluice.Store
	// SlotStore decides Open, and is required for it.
	SlotStore sluice.SlotStore
	// Limits are what each client may do. [Server.Change] puts others in their
	// place.
	Limits

	// Admit, if not nil, says which clients are let in at all.
	Admit func(netip.Addr) bool

	// DecisionTimeout is how long the store may take. Zero means 1 s.
	DecisionTimeout time.Duration

	// MaxConnections is how many connections there may be in all. Zero means
	// 10,000. What comes above waits in the system's queue.
	MaxConnections int
	// Places, if not nil, bound the connections of several servers together. What
	// comes above is reset.
	Places *Places
	// MaxDelay is how long bytes may be delayed before the connection is
	// closed; at most sluice.MaxWait. Zero means 5 minutes.
	MaxDelay time.Duration
	// IdleTimeout ends a connection on which no byte moves. Zero means 10
	// minutes. It also bounds how long either end may refuse to read.
	IdleTimeout time.Duration
	// DialTimeout is how long the connection to the upstream may take, and the
	// client's TLS handshake, if there is one. Zero means 5 s.
	DialTimeout time.Duration
	// Dial, if not nil, connects to the upstream. Nil means [net.Dialer].
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	// OnDecision, if not nil, is called once for every connection whose client
	// is known, or for which there was none of the Places. It must be safe for concurrent use and should be quick.
	OnDecision func(Event)
	// Log gets, at most once a second, what failed. Nil means [slog.Default].
	Log *slog.Logger

	gate *Gate // gets what is let in, in the place of an upstream; nil: there is one
}

// fill checks o and puts the defaults in. All faults are returned at once.
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

// Verdict is the outcome of a connection.
type Verdict uint8

// The verdicts.
const (
	// Allowed was passed on.
	Allowed Verdict = iota
	// DeniedClient was turned away by Admit.
	DeniedClient
	// DeniedRate was one too many in a time.
	DeniedRate
	// DeniedOpen was one too many at once.
	DeniedOpen
	// DeniedFull was one too many at once of all clients: its client is not known.
	DeniedFull
	// Undecided was reset for an error of the store, with FailClosed.
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

// Event is what a [Server] decided about a connection.
type Event struct {
	Client  netip.Addr
	Key     string
	Verdict Verdict
	// Limit is the name of the limit that denied; empty if none did.
	Limit string
	// RetryAfter is how long it takes until the next connection fits; 0 if it
	// was not a limit that denied.
	RetryAfter time.Duration
}
