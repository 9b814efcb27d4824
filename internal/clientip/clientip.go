// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package clientip finds the address of an HTTP client behind proxies, without
// trusting what the client itself may have written.
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

// Options say which proxies are trusted and how addresses are grouped.
type Options struct {
	// Trusted are the networks of proxies whose Header is trusted.
	Trusted []netip.Prefix
	// Header is the one field that is read: X-Forwarded-For (the default),
	// Forwarded, or any other, which then holds a single address.
	Header string
	// Hops, if not zero, says which address of Header is the client's, from the right:
	// 1 is that which the nearest proxy wrote. Every peer is then taken for a proxy. A
	// header of any name is a list then. Hops excludes Trusted.
	Hops int
	// IPv4Bits and IPv6Bits are the length of the prefix that makes a group.
	// Zero means 32 and 64.
	IPv4Bits, IPv6Bits int
}

// Finder finds clients' addresses. It is safe for concurrent use.
type Finder struct {
	trusted []netip.Prefix
	hops    int    // 0: the trusted say it
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

// MaxHops is how many addresses of a header are read, from the right. A chain
// of more trusted proxies than that does not exist; what lies further left is
// the client's own writing.
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
		f.trusted = append(f.trusted, unmapPrefix(p))
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

// unmapPrefix makes an IPv4 prefix of one that is mapped into IPv6.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96).Masked()
	}
	return p.Masked()
}

// Peer returns the address in the RemoteAddr of an [http.Request], the zero Addr if
// that holds none, as on a Unix socket.
func Peer(remote string) netip.Addr {
	addr, ok := parseHop(remote)
	if !ok {
		return netip.Addr{}
	}
	return addr
}

// Client returns the client's address, as Behind does. It is false only if remote,
// which is as for Peer, holds no address.
func (f *Finder) Client(remote string, h http.Header) (netip.Addr, bool) {
	client := f.Behind(Peer(remote), func(name string) []string { return h[name] })
	return client, client.IsValid()
}

// Behind returns the client's address: that of the connection's other end unless
// it is trusted, or Hops says which one of the header's it is. The lines of the header field are asked for by its canonical name.
// It does not allocate for well-formed headers, and reads a bounded part of any
// other.
func (f *Finder) Behind(peer netip.Addr, field func(name string) []string) netip.Addr {
	client := peer // in no network if it is the zero Addr
	if !client.Is4() {
		client = client.Unmap().WithZone("")
	}
	if !f.Trusts(client) {
		return client
	}
	lines := field(f.header)
	if f.kind == single {
		// Two lines may be one of a client and one of a proxy: neither is trusted.
		if len(lines) == 1 && len(lines[0]) <= maxElement {
			if addr, ok := parseHop(trim(lines[0])); ok {
				client = addr
			}
		}
		return client
	}
	// From the right, which is where trusted proxies write, to the first hop
	// that is not trusted or cannot be read. All of them trusted: the leftmost. With Hops
	// it is the one at this place, or the peer if it is missing or cannot be read: what a
	// client wrote lies further left, as long as it comes through so many proxies.
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

// last cuts the last element off a line of the header.
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

// Trusts reports whether an address, without a zone and not mapped into IPv6, is that of
// a trusted proxy: with Hops any is.
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

// Group returns the text of the network that shares a budget with addr: an
// address, or a prefix in CIDR form. An IPv4 address within a NAT64 or 6to4
// one counts as IPv4, unless it is not a public one.
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
	if err != nil { // only of the zero Addr: New has checked the bits
		return ""
	}
	return string(p.AppendTo(buf[:0]))
}
