// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"net/netip"
	"slices"
)

// Match says which requests a rule is about: those for which every field that
// is not empty holds.
type Match struct {
	// Methods, such as "POST". GET includes HEAD, as in net/http.ServeMux.
	Methods []string
	// Hosts, such as "api.example.com", or "*.example.com" for all below it.
	Hosts []string
	// Paths are patterns as in net/http.ServeMux, without method and host:
	// "/users/{id}", "/static/" for all below it, "/files/{rest...}",
	// "/exact/{$}". A request's path is cleaned before it is compared: doubled
	// slashes and dot segments, escaped or not, do not get around a rule. Nor
	// does an escaped slash: one path matches that does if %2F is a part of a
	// segment, as ServeMux has it, or a slash, or if a backslash is one, too.
	// Where a wildcard that is part of a key then stands for two values, the
	// request is refused.
	Paths []string
	// Except are patterns of paths that are not meant, whatever Paths say of the
	// same reading of the path.
	Except []string
	// Headers and Queries must all hold. A parameter on which servers do not
	// agree, such as q in "q=100%", holds whatever is asked of it.
	Headers []Field
	Queries []Field
	// Networks hold the client's address. A client without one is in none.
	Networks []netip.Prefix
}

// MatchesAll reports whether every request of a client with an address matches: there
// is nothing that must hold, or only what always does, as the path "/" or
// networks that hold all addresses. It errs to no.
func (m *Match) MatchesAll() bool {
	return len(m.Methods)+len(m.Hosts)+len(m.Except)+len(m.Headers)+len(m.Queries) == 0 &&
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
		return false // as with most, which are not sorted for it
	}
	sorted := make([]netip.Prefix, len(networks))
	for i, n := range networks {
		sorted[i] = n.Masked()
	}
	slices.SortFunc(sorted, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	// Of each family, the first address that is in none so far; invalid if each is.
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
	last, _ := netip.AddrFromSlice(b) // of as many bytes as before
	return last
}

// Field is what a header field or query parameter must be.
type Field struct {
	Name string
	// Values are those of which the request must have one. Empty means that any
	// will do that is not empty.
	Values []string
	// Absent means that the request must not have the field.
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
