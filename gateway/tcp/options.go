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
	"github.com/sluicegate/sluice/internal/clientip"
)

// Options say where connections go and what limits them. Upstream is required.
type Options struct {
	// Upstream is the host:port to which connections are passed on.
	Upstream string

	// Store decides Rate and Bytes, and is required for either.
	Store sluice.Store
	// Rate, if not nil, is charged 1 for every connection.
	Rate *sluice.Plan
	// Bytes, if not nil, is charged every byte that passes, in both directions
	// and of all connections of a key. Its limits must each grant at least 256
	// units at once, so that bytes need not go one by one.
	Bytes *sluice.Plan

	// SlotStore decides Open, and is required for it.
	SlotStore sluice.SlotStore
	// Open is how many connections a key may hold at once; a Cap of 0 means any
	// number. A TTL of 0 means a minute: after so long the connections of a
	// front server that died count no more.
	Open sluice.SlotLimit
	// Scope says whose budget Open is. Empty means "tcp".
	Scope string

	// Key returns under which key a client is charged. Nil means its address,
	// and of IPv6 the network of 64 bits.
	Key func(netip.Addr) string
	// Admit, if not nil, says which clients are let in at all.
	Admit func(netip.Addr) bool

	// FailClosed resets connections that could not be decided, as the store had
	// an error. By default they pass, and their bytes as well.
	FailClosed bool
	// DecisionTimeout is how long the store may take. Zero means 1 s.
	DecisionTimeout time.Duration

	// MaxConnections is how many connections there may be in all. Zero means
	// 10,000. What comes above waits in the system's queue.
	MaxConnections int
	// MaxDelay is how long bytes may be held back before the connection is
	// given up; at most sluice.MaxWait. Zero means 5 minutes.
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
	// is known. It must be safe for concurrent use and should be quick.
	OnDecision func(Event)
	// Log is told, at most once a second, what failed. Nil means [slog.Default].
	Log *slog.Logger
}

// Verdict is what became of a connection.
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
	// Undecided was reset for an error of the store, with FailClosed.
	Undecided
)

// String returns "allowed", "denied-client", "denied-rate", "denied-open" or
// "undecided".
func (v Verdict) String() string {
	names := [...]string{"allowed", "denied-client", "denied-rate", "denied-open", "undecided"}
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

// fill checks o and puts the defaults in. All faults are returned at once.
func (o *Options) fill() error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf("tcp: "+format, args...)) }
	if _, port, err := net.SplitHostPort(o.Upstream); err != nil || port == "" {
		fault("Upstream: %q is not of the form host:port; write for example 127.0.0.1:5432", o.Upstream)
	}
	if o.Store == nil && (o.Rate != nil || o.Bytes != nil) {
		fault("Store is nil, but Rate or Bytes need one; make one, such as memstore.New(memstore.Options{})")
	}
	if o.SlotStore == nil && o.Open.Cap != 0 {
		fault("SlotStore is nil, but Open needs one; make one, such as memstore.New(memstore.Options{})")
	}
	if o.Rate != nil && o.Bytes != nil && o.Rate.Scope() == o.Bytes.Scope() {
		fault("Rate and Bytes both have the scope %q, so that they may charge one key; give each its own", o.Rate.Scope())
	}
	if o.Bytes != nil {
		for i := range o.Bytes.Len() {
			if t := o.Bytes.Term(i); t.Full() < minChunk {
				fault("Bytes: the limit %q grants at most %d bytes at once; it must be %d or more, so write a burst", t.Name, t.Full(), minChunk)
			}
		}
	}
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
	if o.Scope == "" {
		o.Scope = "tcp"
	}
	if o.Open.TTL == 0 {
		o.Open.TTL = time.Minute
	}
	if o.Key == nil {
		finder, err := clientip.New(clientip.Options{})
		if err != nil {
			faults = append(faults, err)
		} else {
			o.Key = finder.Group
		}
	}
	if o.Dial == nil {
		o.Dial = (&net.Dialer{}).DialContext
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return errors.Join(faults...)
}
