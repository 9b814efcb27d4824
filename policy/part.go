// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
)

// Source is where a [Part] of a key comes from.
type Source uint8

// The sources.
const (
	SourceNone   Source = iota // not valid
	SourceIP                   // the client's address or network
	SourceHeader               // a header field; a device id is one
	SourceQuery                // a query parameter
	SourceCookie               // a cookie
	SourcePath                 // what a wildcard of the path pattern stands for
	SourceClaim                // a claim of a verified token
	SourceHost                 // the requested host
	SourceMethod               // the method
	sources
)

var sourceNames = [...]string{
	SourceNone: "nothing", SourceIP: "ip", SourceHeader: "header", SourceQuery: "query",
	SourceCookie: "cookie", SourcePath: "path", SourceClaim: "claim", SourceHost: "host", SourceMethod: "method",
}

// String returns the name used in configuration.
func (s Source) String() string {
	if s < sources {
		return sourceNames[s]
	}
	return fmt.Sprintf("Source(%d)", uint8(s))
}

// named reports whether parts of the source have a Name.
func (s Source) named() bool {
	switch s {
	case SourceHeader, SourceQuery, SourceCookie, SourcePath, SourceClaim:
		return true
	default:
		return false
	}
}

// Part is one part of a key. It is a comparable value; make one with [IP],
// [Header] and their like.
type Part struct {
	Source Source
	Name   string // of the header, parameter, cookie, wildcard or claim
	// IPv4Bits and IPv6Bits are how long a prefix shares a budget. Zero means
	// 32, each address by itself, and 64, the least that one customer gets.
	IPv4Bits, IPv6Bits int
}

// IP is the client's address; of IPv6 its network of /64.
func IP() Part { return Part{Source: SourceIP} }

// Network is the client's network of the given prefix lengths.
func Network(ipv4Bits, ipv6Bits int) Part {
	return Part{Source: SourceIP, IPv4Bits: ipv4Bits, IPv6Bits: ipv6Bits}
}

// Header is a request header field's value.
func Header(name string) Part { return Part{Source: SourceHeader, Name: name} }

// Query is a query parameter's value.
func Query(name string) Part { return Part{Source: SourceQuery, Name: name} }

// Cookie is a cookie's value.
func Cookie(name string) Part { return Part{Source: SourceCookie, Name: name} }

// Path is what a wildcard of the rule's path pattern stands for.
func Path(wildcard string) Part { return Part{Source: SourcePath, Name: wildcard} }

// Claim is a claim of a verified token.
func Claim(name string) Part { return Part{Source: SourceClaim, Name: name} }

// Host is the requested host.
func Host() Part { return Part{Source: SourceHost} }

// String returns the part's text: "ip", "ip/24/48", "header.X-User".
func (p Part) String() string {
	switch {
	case p.Source.named():
		return p.Source.String() + "." + p.Name
	case p.Source == SourceIP && (p.IPv4Bits != 0 || p.IPv6Bits != 0):
		return fmt.Sprintf("ip/%d/%d", p.bits4(), p.bits6())
	default:
		return p.Source.String()
	}
}

func (p Part) bits4() int {
	if p.IPv4Bits == 0 {
		return 32
	}
	return p.IPv4Bits
}

func (p Part) bits6() int {
	if p.IPv6Bits == 0 {
		return 64
	}
	return p.IPv6Bits
}

// ParsePart reads a part's text: ip, ip/V4BITS/V6BITS, header.NAME, query.NAME,
// cookie.NAME, path.WILDCARD, claim.NAME, host, method.
func ParsePart(text string) (Part, error) {
	const forms = "ip, ip/24/48, header.NAME, query.NAME, cookie.NAME, path.WILDCARD, claim.NAME, host or method"
	word, name, named := strings.Cut(text, ".")
	for s := SourceHeader; s < sources; s++ {
		if s.String() != word {
			continue
		}
		switch {
		case s.named() && name == "":
			return Part{}, fmt.Errorf("%q lacks a name; write %s.NAME", text, word)
		case !s.named() && named:
			return Part{}, fmt.Errorf("%q: %s has no name; write %s alone", text, word, word)
		}
		return Part{Source: s, Name: name}, nil
	}
	if text == "ip" {
		return IP(), nil
	}
	if strings.HasPrefix(text, "ip/") {
		var v4, v6 int
		if n, err := fmt.Sscanf(text, "ip/%d/%d", &v4, &v6); err == nil && n == 2 && text == fmt.Sprintf("ip/%d/%d", v4, v6) &&
			1 <= v4 && v4 <= 32 && 1 <= v6 && v6 <= 128 {
			return Network(v4, v6), nil
		}
		return Part{}, fmt.Errorf("%q: write two prefix lengths, of IPv4 from 1 to 32 and of IPv6 from 1 to 128, such as ip/24/48", text)
	}
	return Part{}, fmt.Errorf("%q says not whose budget it is; write %s", text, forms)
}
