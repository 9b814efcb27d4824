// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip

import "net/netip"

var (
	nat64  = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixTo4 = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// embedded returns the IPv4 address that a translator wrote into addr, or addr. NAT64 maps all
// of IPv4 into one /64, and a 6to4 site has 65,536 of them: by their IPv6 prefix the former
// would share a budget and the latter have many.
//
// It is for grouping only. Trust is never decided by an embedded address: the owner of
// 64:ff9b::10.0.0.1 is not 10.0.0.1.
func embedded(addr netip.Addr) netip.Addr {
	if !addr.Is6() {
		return addr
	}
	b := addr.As16()
	var v4 netip.Addr
	switch {
	case nat64.Contains(addr):
		v4 = netip.AddrFrom4([4]byte(b[12:16]))
	case sixTo4.Contains(addr):
		v4 = netip.AddrFrom4([4]byte(b[2:6]))
	default:
		return addr
	}
	// Both RFCs allow public addresses only.
	if v4.IsPrivate() || !v4.IsGlobalUnicast() {
		return addr
	}
	return v4
}
