// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/source"
)

// named reports whether parts of a source have a Name.
func named(s string) bool {
	switch s {
	case source.Header, source.Query, source.Cookie, source.Path, source.Claim, source.Certificate, source.Descriptor, source.Func:
		return true
	default:
		return false
	}
}

// Part is one part of a key. It is a comparable value; make one with [IP],
// [Header] and their like.
type Part struct {
	// Source is the source of the part: "ip", "header", "query", "cookie",
	// "path", "claim", "host", "method", "cert", "descriptor", "func", "first" or "all".
	Source string
	Name   string // of the header, parameter, cookie, wildcard or claim; in errors, of a function
	// IPv4Bits and IPv6Bits are the prefix lengths of networks that share a budget. Zero
	// means 32, single addresses, and 64, the least that a customer gets.
	IPv4Bits, IPv6Bits int
	made               *made
}

// made holds the fields of a part that has no text.
type made struct {
	value func(Attributes) (string, error)
	of    []Part
}

// IP is the client's address, or its /64 network for IPv6.
func IP() Part { return Part{Source: source.IP} }

// Network is the client's network of the given prefix lengths.
func Network(ipv4Bits, ipv6Bits int) Part {
	return Part{Source: source.IP, IPv4Bits: ipv4Bits, IPv6Bits: ipv6Bits}
}

// Header is a request header field's value.
func Header(name string) Part { return Part{Source: source.Header, Name: name} }

// Query is a query parameter's value.
func Query(name string) Part { return Part{Source: source.Query, Name: name} }

// Cookie is a cookie's value.
func Cookie(name string) Part { return Part{Source: source.Cookie, Name: name} }

// Path is the value of a wildcard in the rule's path pattern.
func Path(wildcard string) Part { return Part{Source: source.Path, Name: wildcard} }

// Segment is the n-th segment of the path, from 1: the second of /users/u1/cart
// is u1. It is unescaped. The rule needs no path pattern.
//
// A path that servers may read differently is refused: one with a segment of one or two
// dots, and one that has an empty segment or an escaped slash or backslash up to the n-th
// segment.
func Segment(n int) Part { return Part{Source: source.Path, Name: strconv.Itoa(n)} }

// Claim is a claim of a verified token.
func Claim(name string) Part { return Part{Source: source.Claim, Name: name} }

// Host is the requested host.
func Host() Part { return Part{Source: source.Host} }

// Func is the value that a function returns for a request; errors call the part name, such
// as "session". The function must be safe for concurrent use. It returns "" or a
// [*PartError] with Missing if the request lacks the part, and a PartError for another fault
// of the client. Any other error is treated as a store error.
func Func(name string, value func(Attributes) (string, error)) Part {
	return Part{Source: source.Func, Name: name, made: &made{value: value}}
}

// First is the first of several parts that a request has, such as a user's id or else the
// address. The value begins with the number of its part, as in "2:192.0.2.1", so that values
// of different parts are never equal.
func First(parts ...Part) Part {
	return Part{Source: source.First, made: &made{of: slices.Clone(parts)}}
}

// All joins several parts into one, for First: the By of a level needs no All.
func All(parts ...Part) Part {
	return Part{Source: source.All, made: &made{of: slices.Clone(parts)}}
}

// Parts returns the parts of First or All; for any other part p alone.
func (p Part) Parts() []Part {
	if p.made == nil || p.Source == source.Func {
		return []Part{p}
	}
	return slices.Clone(p.made.of)
}

// String returns the part's text: "ip", "ip/24/48", "header.X-User".
func (p Part) String() string {
	switch {
	case p.Source == source.Func:
		return p.Name
	case p.Source == source.First:
		return p.list(" or ")
	case p.Source == source.All:
		return p.list(" and ")
	case named(p.Source):
		return p.Source + "." + p.Name
	case p.Source == source.IP && (p.IPv4Bits != 0 || p.IPv6Bits != 0):
		return fmt.Sprintf("ip/%d/%d", cmp.Or(p.IPv4Bits, 32), cmp.Or(p.IPv6Bits, 64))
	default:
		return p.Source
	}
}

func (p Part) list(between string) string {
	var texts []string
	for _, part := range p.Parts() {
		texts = append(texts, part.String())
	}
	return strings.Join(texts, between)
}

// segment returns the number of the segment that p is, 0 if it is none.
func (p Part) segment() int {
	n, err := strconv.Atoi(p.Name)
	if err != nil || n < 1 || p.Source != source.Path || strconv.Itoa(n) != p.Name {
		return 0
	}
	return n
}

// ParsePart reads a part's text: ip, ip/V4BITS/V6BITS, header.NAME, query.NAME,
// cookie.NAME, path.WILDCARD, path.NUMBER for a segment, claim.NAME, cert.NAME with a name
// of [Certificate], descriptor.KEY, host, method. The error says what to write.
func ParsePart(text string) (Part, error) {
	const forms = "ip, ip/24/48, header.NAME, query.NAME, cookie.NAME, path.WILDCARD, path.NUMBER, claim.NAME, " + certificateForms + ", descriptor.KEY, host or method"
	word, name, dotted := strings.Cut(text, ".")
	if slices.Contains(source.Written, word) {
		switch {
		case named(word) && name == "":
			return Part{}, fmt.Errorf("%q lacks a name; use %s.NAME", text, word)
		case !named(word) && dotted:
			return Part{}, fmt.Errorf("%q: %s has no name; use %s alone", text, word, word)
		case word == source.Certificate && !isCertificateName(name):
			return Part{}, fmt.Errorf("%q is no name in a certificate; use %s", text, certificateForms)
		}
		return Part{Source: word, Name: name}, nil
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
	return Part{}, fmt.Errorf("unknown key part %q; use %s", text, forms)
}
