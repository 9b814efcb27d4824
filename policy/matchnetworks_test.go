// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/policy"
)

// halves returns the two halves of a network.
func halves(n netip.Prefix) (first, second netip.Prefix) {
	b := n.Addr().AsSlice()
	b[n.Bits()/8] |= 0x80 >> (n.Bits() % 8)
	addr, _ := netip.AddrFromSlice(b)
	return netip.PrefixFrom(n.Addr(), n.Bits()+1), netip.PrefixFrom(addr, n.Bits()+1)
}

// TestMatchesAllInParts: networks halved repeatedly, in any order and with others within
// them, contain all addresses until one is left out.
func TestMatchesAllInParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
		var within []netip.Prefix // networks within a part, smaller than the part
		for range rapid.IntRange(0, 200).Draw(t, "halvings") {
			i := rapid.IntRange(0, len(parts)-1).Draw(t, "which")
			if parts[i].IsSingleIP() {
				continue
			}
			first, second := halves(parts[i])
			parts[i] = first
			parts = append(parts, second)
		}
		for _, part := range parts {
			if part.Bits() < part.Addr().BitLen() && rapid.Bool().Draw(t, "also a half") {
				half, _ := halves(part)
				within = append(within, half)
			}
		}
		all := rapid.Permutation(slices.Concat(parts, within)).Draw(t, "order")
		m := policy.Match{Networks: all}
		if !m.MatchesAll() {
			t.Fatalf("%v: got no", all)
		}
		out := parts[rapid.IntRange(0, len(parts)-1).Draw(t, "left out")]
		m.Networks = slices.DeleteFunc(slices.Clone(all), func(n netip.Prefix) bool { return n == out })
		if m.MatchesAll() {
			t.Fatalf("%v without %v: got yes", all, out)
		}
	})
}

// BenchmarkMatchesAll checks a list of networks that contains all addresses.
func BenchmarkMatchesAll(b *testing.B) {
	networks := []netip.Prefix{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("0.0.0.0/0")}
	for len(networks) < 4000 {
		for i := range networks {
			first, second := halves(networks[i])
			networks[i] = first
			networks = append(networks, second)
		}
	}
	m := policy.Match{Networks: networks}
	for b.Loop() {
		if !m.MatchesAll() {
			b.Fatal("not all")
		}
	}
}
