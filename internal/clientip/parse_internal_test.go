// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzCutIPv4 compares cutIPv4 with netip: what it leaves of a text begins behind all digits
// and dots if that reads these as an address, and only then.
func FuzzCutIPv4(f *testing.F) {
	for _, s := range []string{
		"", "0.0.0.0", "255.255.255.255", "256.1.1.1", "1.1.1.256", "01.1.1.1", "1.1.1.00", "1.1.1.1:80", "1.1.1", "1.1.1.", "1.1.1.1.1",
		"1..1.1", ".1.1.1", "1.1.1.1000", "1.1.1.1%eth0", "::1", "1.1.1.1 ", "1.1.1.-1", "a.1.1.1", "1:1.1.1", "1111.1.1.1",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		end := strings.IndexFunc(s, func(c rune) bool { return c != '.' && (c < '0' || c > '9') })
		if end < 0 {
			end = len(s)
		}
		want, err := netip.ParseAddr(s[:end])
		got, rest, ok := cutIPv4(s)
		if whole := ok && rest == s[end:]; whole != (err == nil) || whole && got != want {
			t.Fatalf("%q: got %v, %q, %v; want %v, %q, %v", s, got, rest, ok, want, s[end:], err)
		}
		if addr, ok := parseHop(s[:end]); ok != (err == nil) || ok && addr != want {
			t.Fatalf("%q: read as %v, %v; want %v, %v", s[:end], addr, ok, want, err)
		}
	})
}
