// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/source"
)

// named reports whether parts of a source have a Name.
func named(s string) bool {
	switch s {
	case source.Header, source.Query, source.Cookie, source.Path, source.Claim, source.Certificate, source.Func:
		return true
	default:
		return false
	}
}

// Part is one part of a key. It is a comparable value; make one with [IP],
// [Header] and their like.
type Part struct {
	// Source is where the part comes from: "ip", "header", "query", "cookie",
	// "path", "claim", "host", "method", "cert", "func", "first" or "all".
	Source string
	Name   string // of the header, parameter, cookie, wildcard or claim; what a function's value is called
	// IPv4Bits and IPv6Bits are how long a prefix shares a budget. Zero means
	// 32, each address by itself, and 64, the least that one customer gets.
	IPv4Bits, IPv6Bits int
	made               *made
}

// made is what a part is made of that no text can say.
type made struct {
	value func(Attributes) (string, error)
	of    []Part
	err   error // why there is no such part
}

// IP is the client's address; of IPv6 its network of /64.
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

// Path is what a wildcard of the rule's path pattern stands for.
func Path(wildcard string) Part { return Part{Source: source.Path, Name: wildcard} }

// Segment is the n-th segment of the path, from 1: the second of /users/u1/cart
// is u1. It is unescaped. The rule needs no path pattern.
//
// A path that others might read differently is refused: one with a segment of one
// or two dots, and one that up to the n-th segment has an empty one or an escaped
// slash or backslash.
func Segment(n int) Part { return Part{Source: source.Path, Name: strconv.Itoa(n)} }

// Claim is a claim of a verified token.
func Claim(name string) Part { return Part{Source: source.Claim, Name: name} }

// Host is the requested host.
func Host() Part { return Part{Source: source.Host} }

// Func is what value says of a request, which is called name in error texts:
// "session". It must be safe for concurrent use. If the request lacks the part it
// returns "" or a [*PartError] with Missing; for what the client did wrong
// otherwise a PartError, too. Any other error is treated as one of the store.
func Func(name string, value func(Attributes) (string, error)) Part {
	return Part{Source: source.Func, Name: name, made: &made{value: value}}
}

// BadPart is a part that cannot be made, which Compile says with all that is
// wrong.
func BadPart(name string, err error) Part {
	return Part{Source: source.Func, Name: name, made: &made{err: err}}
}

// First is the first of parts that a request has: a user's id if it is known, or
// else the address. The value is preceded by which it was, as in "2:192.0.2.1", so
// that the value of one never equals that of another.
func First(parts ...Part) Part {
	return Part{Source: source.First, made: &made{of: slices.Clone(parts)}}
}

// All is several parts as one, for First: a level's By has no need of it.
func All(parts ...Part) Part {
	return Part{Source: source.All, made: &made{of: slices.Clone(parts)}}
}

// Parts returns what a part of First or All is made of, and else p alone.
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
		return fmt.Sprintf("ip/%d/%d", p.bits4(), p.bits6())
	default:
		return p.Source
	}
}

// ByIP reports whether the part holds the client's address, by itself or among
// others.
func (p Part) ByIP() bool {
	if p.made == nil {
		return p.Source == source.IP
	}
	return slices.ContainsFunc(p.made.of, Part.ByIP)
}

func (p Part) list(between string) string {
	var texts []string
	for _, part := range p.Parts() {
		texts = append(texts, part.String())
	}
	return strings.Join(texts, between)
}

// segment returns the number of a segment, 0 if p is none.
func (p Part) segment() int {
	n, err := strconv.Atoi(p.Name)
	if err != nil || n < 1 || p.Source != source.Path || strconv.Itoa(n) != p.Name {
		return 0
	}
	return n
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
// cookie.NAME, path.WILDCARD, path.NUMBER of a segment, claim.NAME, cert.NAME, of
// which [Certificate] says the names, host, method.
// The error says what to write.
func ParsePart(text string) (Part, error) {
	const forms = "ip, ip/24/48, header.NAME, query.NAME, cookie.NAME, path.WILDCARD, path.NUMBER, claim.NAME, " + certificateForms + ", host or method"
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
