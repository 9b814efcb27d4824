// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"net/netip"
	"slices"
)

// networks is a set of networks in which finding an address takes a look-up for
// each length of prefix, however many there are.
type networks struct {
	bits4, bits6 []int // distinct lengths
	of           map[netip.Prefix]struct{}
}

func newNetworks(prefixes []netip.Prefix) networks {
	n := networks{of: make(map[netip.Prefix]struct{}, len(prefixes))}
	for _, p := range prefixes {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		n.of[p.Masked()] = struct{}{}
		bits := &n.bits6
		if p.Addr().Is4() {
			bits = &n.bits4
		}
		if !slices.Contains(*bits, p.Bits()) {
			*bits = append(*bits, p.Bits())
		}
	}
	return n
}

// contains reports whether a network holds addr; the zero Addr is in none.
func (n *networks) contains(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	lengths := n.bits6
	if addr.Is4() {
		lengths = n.bits4
	}
	for _, bits := range lengths {
		if p, err := addr.Prefix(bits); err == nil {
			if _, ok := n.of[p]; ok {
				return true
			}
		}
	}
	return false
}
