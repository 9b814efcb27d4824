// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package proxyproto reads the header of the PROXY protocol, version 1 or 2, by which HAProxy,
// nginx and load balancers of layer 4 name the client at the start of a connection.
//
// Only the listed peers are trusted, and these must send a header. The bytes of any other peer
// are passed on unchanged, so that a forged header is only data, which the application
// refuses. A header that is malformed, late, or has a wrong checksum fails every read and
// write of its connection with a [*HeaderError]. One that names no client, such as UNKNOWN or
// a load balancer's LOCAL health check, leaves the connection its own addresses.
package proxyproto

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// Options are the options of a [Listener]. Trusted is required.
type Options struct {
	// Trusted are the networks of the proxies that send a header.
	Trusted []netip.Prefix
	// Timeout bounds the arrival of a header after its connection was accepted. Zero means 5
	// s.
	Timeout time.Duration
	// OnError, if not nil, is called with each header that is refused or late, by the first
	// call that needs it: net/http's server does not report it. It is not called for a
	// connection that ends before its first byte, as port checks do. It must be safe for
	// concurrent use and quick.
	OnError func(*HeaderError)
}

// Listener is a [net.Listener] whose connections have the addresses stated by trusted proxies.
type Listener struct {
	net.Listener
	trusted []netip.Prefix
	timeout time.Duration
	onError func(*HeaderError)
}

// Listen returns a Listener that accepts from l, or every fault of o joined. Closing it closes
// l.
func Listen(l net.Listener, o Options) (*Listener, error) {
	var faults []error
	if len(o.Trusted) == 0 {
		faults = append(faults, errors.New("proxyproto: Trusted is empty, so that no header would be read; list the networks of the proxies"))
	}
	if o.Timeout < 0 {
		faults = append(faults, fmt.Errorf("proxyproto: Timeout: %v is negative; leave it 0 for 5s", o.Timeout))
	}
	if o.Timeout == 0 {
		o.Timeout = 5 * time.Second
	}
	trusted := make([]netip.Prefix, 0, len(o.Trusted))
	for _, p := range o.Trusted {
		if !p.IsValid() {
			faults = append(faults, errors.New(`proxyproto: Trusted: a prefix is not valid; use for example netip.MustParsePrefix("10.0.0.0/8")`))
			continue
		}
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		trusted = append(trusted, p.Masked())
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return &Listener{Listener: l, trusted: trusted, timeout: o.Timeout, onError: o.OnError}, nil
}

// Accept returns the next connection: a [*Conn] if a trusted peer made it, otherwise the
// connection of the listener below. It does not wait for a header.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || !l.trusts(c.RemoteAddr()) {
		return c, err
	}
	return newConn(c, time.Now().Add(l.timeout), l.onError), nil
}

func (l *Listener) trusts(peer net.Addr) bool {
	at, err := netip.ParseAddrPort(peer.String())
	if err != nil { // a Unix socket
		return false
	}
	addr := at.Addr().Unmap().WithZone("")
	for _, p := range l.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
