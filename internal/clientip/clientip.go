// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clientip finds the address of an HTTP client behind proxies, without trusting text
// that the client may have written.
package clientip

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Options are the trusted proxies and the grouping of addresses.
type Options struct {
	// Trusted are the networks of proxies trusted to write Header.
	Trusted []netip.Prefix
	// Header is the only field read: X-Forwarded-For (the default), Forwarded, or any other
	// field, which then holds a single address.
	Header string
	// Hops, if not zero, is the position of the client's address in Header from the right; 1
	// is the address that the nearest proxy wrote. Every peer then counts as a proxy, and any
	// header as a list. Hops excludes Trusted.
	Hops int
	// IPv4Bits and IPv6Bits are the prefix lengths of groups. Zero means 32 and 64.
	IPv4Bits, IPv6Bits int
}

// Finder finds clients' addresses. It is safe for concurrent use.
type Finder struct {
	trusted []netip.Prefix
	hops    int    // 0: trusted decides
	header  string // canonical
	kind    kind
	bits4   int
	bits6   int
}

type kind uint8

const (
	list      kind = iota // X-Forwarded-For
	forwarded             // RFC 7239
	single                // one address
)

// MaxHops is the most addresses of a header that are read, from the right. No longer chain of
// trusted proxies exists; addresses further left are the client's own text.
const MaxHops = 32

// MostHops is the largest Hops.
const MostHops = 16

// New returns a Finder, or every fault of o joined.
func New(o Options) (*Finder, error) {
	f := &Finder{hops: o.Hops, bits4: o.IPv4Bits, bits6: o.IPv6Bits, header: textproto.CanonicalMIMEHeaderKey(o.Header)}
	if f.bits4 == 0 {
		f.bits4 = 32
	}
	if f.bits6 == 0 {
		f.bits6 = 64
	}
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if f.bits4 < 1 || f.bits4 > 32 {
		fault("IPv4Bits: %d must be 1 to 32, or 0 for 32", o.IPv4Bits)
	}
	if f.bits6 < 1 || f.bits6 > 128 {
		fault("IPv6Bits: %d must be 1 to 128, or 0 for 64", o.IPv6Bits)
	}
	for _, p := range o.Trusted {
		if !p.IsValid() {
			fault("Trusted: a prefix is not valid; use for example netip.MustParsePrefix(\"10.0.0.0/8\")")
			continue
		}
		f.trusted = append(f.trusted, Masked(p))
	}
	switch f.header {
	case "", "X-Forwarded-For":
		f.header = "X-Forwarded-For"
	case "Forwarded":
		f.kind = forwarded
	default:
		f.kind = single
	}
	if f.hops != 0 && f.kind == single {
		f.kind = list
	}
	if f.hops < 0 || f.hops > MostHops {
		fault("Hops: %d must be 1 to %d, or 0 for none", f.hops, MostHops)
	}
	if f.hops != 0 && len(o.Trusted) > 0 {
		fault("Hops and Trusted exclude each other; use Trusted if the proxies' networks are known")
	}
	if o.Header != "" && len(o.Trusted) == 0 && f.hops == 0 {
		fault("Header: %q has no effect without trusted proxies; list their networks in Trusted", o.Header)
	}
	if strings.ContainsAny(f.header, " \t\r\n:,;\"") {
		fault("Header: %q is not a header field's name", o.Header)
	}
	return f, errors.Join(faults...)
}

// Masked returns a network without the bits of hosts, and one that is mapped into IPv6 as IPv4.
func Masked(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// Peer returns the address in the RemoteAddr of an [http.Request], or the zero Addr without
// one, as on a Unix socket.
func Peer(remote string) netip.Addr {
	addr, ok := parseHop(remote)
	if !ok {
		return netip.Addr{}
	}
	return addr
}

// Client returns the client's address, as Behind does. It reports false only if remote, in the
// form of Peer's, holds no address.
func (f *Finder) Client(remote string, h http.Header) (netip.Addr, bool) {
	client := f.Behind(Peer(remote), func(name string) []string { return h[name] })
	return client, client.IsValid()
}

// Behind returns the client's address: peer unless that is trusted, or the address in the
// header at position Hops. It calls field with the canonical name for the lines of the header.
// It does not allocate for well-formed headers, and reads a bounded part of others.
func (f *Finder) Behind(peer netip.Addr, field func(name string) []string) netip.Addr {
	client := peer // the zero Addr is in no network
	if !client.Is4() {
		client = client.Unmap().WithZone("")
	}
	if !f.Trusts(client) {
		return client
	}
	lines := field(f.header)
	if f.kind == single {
		// Of two lines a client may have written one: neither is trusted.
		if len(lines) == 1 && len(lines[0]) <= maxElement {
			if addr, ok := parseHop(trim(lines[0])); ok {
				client = addr
			}
		}
		return client
	}
	// Trusted proxies write on the right: the client is the first hop from there that is not
	// trusted or cannot be read, or the leftmost if all are trusted. With Hops it is the hop
	// at this position, or the peer if that is missing or cannot be read: the client's own
	// text is further left if the request passed that many proxies.
	hops := 0
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; hops++ {
			var element string
			var ok bool
			if hops == MaxHops {
				return client
			}
			if element, rest, more, ok = f.last(rest); !ok {
				return client
			}
			if hops+1 < f.hops {
				continue
			}
			addr, ok := f.address(element)
			if !ok {
				return client
			}
			client = addr
			if f.hops > 0 || !f.Trusts(client) {
				return client
			}
		}
	}
	return client
}

// last returns the last element of a line of the header and the rest.
func (f *Finder) last(line string) (element, rest string, more, ok bool) {
	if f.kind == forwarded {
		return lastForwarded(line)
	}
	return lastListed(line)
}

// address reads an element of the header.
func (f *Finder) address(element string) (netip.Addr, bool) {
	if f.kind == forwarded {
		return parseForwarded(element)
	}
	return parseHop(trim(element))
}

// Trusts reports whether an address, without a zone and not mapped into IPv6, is a trusted
// proxy's. With Hops every address is.
func (f *Finder) Trusts(addr netip.Addr) bool {
	if f.hops > 0 {
		return true
	}
	for _, p := range f.trusted {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// Group returns the text of the network that shares a budget with addr: an address, or a
// prefix in CIDR form. A public IPv4 address within a NAT64 or 6to4 address counts as IPv4.
func (f *Finder) Group(addr netip.Addr) string {
	if !addr.Is4() {
		addr = embedded(addr.Unmap().WithZone(""))
	}
	bits := f.bits6
	if addr.Is4() {
		bits = f.bits4
	}
	var buf [64]byte
	if bits == addr.BitLen() {
		return string(addr.AppendTo(buf[:0]))
	}
	p, err := addr.Prefix(bits)
	if err != nil { // only for the zero Addr: New has checked the bits
		return ""
	}
	return string(p.AppendTo(buf[:0]))
}
