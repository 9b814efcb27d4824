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
	"net"
	"net/netip"
	"time"

	"github.com/sluicegate/sluice/internal/clientip"
)

// Options are the options of a [Listener]. Trusted is required.
type Options struct {
	// Trusted are the networks of the proxies that send a header.
	Trusted []netip.Prefix
	// OnError, if not nil, is called with each header that is refused or late, by the first
	// call that needs it: net/http's server does not report it. It is not called for a
	// connection that ends before its first byte, as port checks do. It must be safe for
	// concurrent use and quick.
	OnError func(*HeaderError)
}

// headerTimeout bounds the arrival of a header after its connection was accepted.
const headerTimeout = 5 * time.Second

// Listener is a [net.Listener] whose connections have the addresses stated by trusted proxies.
type Listener struct {
	net.Listener
	trusted clientip.Admission
	onError func(*HeaderError)
}

// Listen returns a Listener that accepts from l. Closing it closes l.
func Listen(l net.Listener, o Options) (*Listener, error) {
	if len(o.Trusted) == 0 {
		return nil, errors.New("proxyproto: Trusted is empty, so that no header would be read; list the networks of the proxies")
	}
	return &Listener{l, clientip.NewAdmission(o.Trusted, nil), o.OnError}, nil
}

// Accept returns the next connection: a [*Conn] if a trusted peer made it, otherwise the
// connection of the listener below. It does not wait for a header.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil || !l.trusted.Admits(clientip.Peer(c.RemoteAddr().String())) {
		return c, err
	}
	return newConn(c, time.Now().Add(headerTimeout), l.onError), nil
}
