// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"net/http"
	"net/netip"

	"github.com/sluicegate/sluice/internal/clientip"
)

// ClientIP says how a client's address is found and how many addresses share
// a budget. The zero value takes the address of the connection's other end.
type ClientIP struct {
	// Trusted are the networks of the proxies whose Header is believed. None
	// are by default, and then no header is read.
	Trusted []netip.Prefix
	// Header is the one field that these proxies set or append to:
	// "X-Forwarded-For", which is the default, "Forwarded" (RFC 7239), or one
	// that holds a single address, such as "X-Real-IP" or "CF-Connecting-IP".
	// The proxies must overwrite a single one; to a list they append.
	Header string
	// IPv4Bits and IPv6Bits are how long a prefix shares a budget: by default
	// 32, each address by itself, and 64, the least that one customer gets.
	IPv4Bits, IPv6Bits int
}

// ByIP returns a Key of the address at the connection's other end: an IPv4
// address, or an IPv6 network of /64. Behind a proxy that is the proxy: use
// [ByClientIP].
func ByIP() Key { return ByClientIP(ClientIP{}) }

// ByClientIP returns a Key of the client's address, found through trusted
// proxies: of the addresses in the header, from the right, the first that is
// not trusted, or the last good one where one cannot be read. What a client
// writes into the header itself lies to the left of that and is not read.
//
// IPv4 addresses in IPv6 ones (mapped, NAT64, 6to4) count as IPv4.
func ByClientIP(o ClientIP) Key {
	finder, err := clientip.New(clientip.Options{
		Trusted: o.Trusted, Header: o.Header, IPv4Bits: o.IPv4Bits, IPv6Bits: o.IPv6Bits,
	})
	if err != nil {
		return badKey("ByClientIP: %w", err)
	}
	return Key{name: "client address", value: func(r *http.Request) (string, error) {
		addr, ok := finder.Client(r.RemoteAddr, r.Header)
		if !ok {
			return "", nil
		}
		return finder.Group(addr), nil
	}}
}
