// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip

import (
	"net/netip"
	"slices"
)

// Admission decides which clients are admitted. It is immutable and safe for concurrent use.
type Admission struct {
	allow, deny networks
	all         bool // except deny
}

// NewAdmission returns an Admission of the clients in allow, or of all if that is empty,
// except those in deny.
func NewAdmission(allow, deny []netip.Prefix) Admission {
	return Admission{allow: newNetworks(allow), deny: newNetworks(deny), all: len(allow) == 0}
}

// Admits reports whether a client is admitted. The zero Addr is a client of unknown address.
func (a *Admission) Admits(client netip.Addr) bool {
	return !a.deny.contains(client) && (a.all || a.allow.contains(client))
}

// networks is a set of networks. A search takes one look-up for each length of prefix,
// whatever their number.
type networks struct {
	bits4, bits6 []int // distinct lengths
	of           map[netip.Prefix]struct{}
}

func newNetworks(prefixes []netip.Prefix) networks {
	n := networks{of: make(map[netip.Prefix]struct{}, len(prefixes))}
	for _, p := range prefixes {
		p = Masked(p)
		n.of[p] = struct{}{}
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

// contains reports whether a network contains addr. None contains the zero Addr.
func (n *networks) contains(addr netip.Addr) bool {
	return len(n.of) > 0 && n.contain(addr)
}

func (n *networks) contain(addr netip.Addr) bool {
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
