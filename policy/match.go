// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
)

// Match selects the requests of a rule: those for which every non-empty field holds.
type Match struct {
	// Methods, such as "POST". GET includes HEAD, as in net/http.ServeMux.
	Methods []string
	// Hosts, such as "api.example.com", or "*.example.com" for its subdomains.
	Hosts []string
	// Paths are patterns as in net/http.ServeMux, without method and host:
	// "/users/{id}", "/static/" and all below, "/files/{rest...}", "/exact/{$}". A request's
	// path is cleaned before it is compared: doubled slashes and dot segments, escaped or
	// not, do not evade a rule. Neither does an escaped slash: a path matches if it does
	// with %2F as part of a segment, as in ServeMux, with %2F as a slash, or with a
	// backslash as a slash, too. If the readings give a wildcard of the key different
	// values, the request is refused.
	Paths []string
	// Except are patterns of excluded paths. An excluded reading of the path does not
	// match, whatever Paths are.
	Except []string
	// Headers and Queries must all hold. A parameter on which servers do not agree, such
	// as q in "q=100%", always holds.
	Headers []Field
	Queries []Field
	// Descriptor are the entries of Envoy's descriptor, all of them, in any order. A descriptor
	// with another entry, or with two of one key, does not match. A star in a value is any text.
	Descriptor []Field
	// ExceptDescriptor are entries with any of which a descriptor does not match.
	ExceptDescriptor []Field
	// Networks contain the client's address. A client without an address is in none.
	Networks []netip.Prefix
}

// MatchesAll reports whether every request of a client with an address matches: Match is
// empty, or its fields always hold, such as the path "/" or networks that contain all
// addresses. It may report false for a Match that matches all.
func (m *Match) MatchesAll() bool {
	return len(m.Methods)+len(m.Hosts)+len(m.Except)+len(m.Headers)+len(m.Queries)+len(m.Descriptor)+len(m.ExceptDescriptor) == 0 &&
		(len(m.Paths) == 0 || slices.ContainsFunc(m.Paths, everyPath)) &&
		(len(m.Networks) == 0 || everyAddress(m.Networks))
}

// everyPath reports whether each path has the pattern.
func everyPath(text string) bool {
	p, err := parsePattern(text)
	return err == nil && p.end == endBelow && len(p.segments) == 0
}

// everyAddress reports whether each address is in one of some networks.
func everyAddress(networks []netip.Prefix) bool {
	if !within(networks, netip.IPv6Unspecified()) {
		return false // true of most, so the networks need not be sorted
	}
	sorted := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		sorted[i] = n.Masked()
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	// The first address of each family that no network contains so far; invalid if all do.
	next4, next6 := netip.IPv4Unspecified(), netip.IPv6Unspecified()
	for _, n := range sorted {
		next := &next6
		if n.Addr().Is4() {
			next = &next4
		}
		if !next.IsValid() || !n.IsValid() {
			continue
		}
		if n.Addr().Compare(*next) > 0 {
			return false
		}
		if last := lastOf(n); last.Compare(*next) >= 0 {
			*next = last.Next()
		}
	}
	return !next4.IsValid() && !next6.IsValid()
}

// lastOf returns the last address of a network.
func lastOf(n netip.Prefix) netip.Addr {
	b := n.Addr().AsSlice()
	for i := n.Bits(); i < 8*len(b); i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	last, _ := netip.AddrFromSlice(b) // the length has not changed
	return last
}

// Field is a condition on a header field, a query parameter or an entry of a descriptor.
type Field struct {
	Name string
	// Values are alternatives: the request must have one of them. Without Values, it may have
	// any value that is not empty.
	Values []string
	// Absent means that the request must not have the field, or the parameter.
	Absent bool
}

func (f *Field) holds(have []string) bool {
	if f.Absent {
		return len(have) == 0
	}
	for _, v := range have {
		if len(f.Values) == 0 && v != "" {
			return true
		}
		if slices.Contains(f.Values, v) {
			return true
		}
	}
	return false
}
