// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
)

// cutIPv4 takes for an address exactly what netip does.
func TestCutIPv4(t *testing.T) {
	check := func(s string) (ok bool) {
		addr, rest, ok := cutIPv4(s)
		want, err := netip.ParseAddr(strings.TrimSuffix(s, rest))
		switch plain := rest == "" || rest[0] == ':'; {
		case ok && plain && (err != nil || want != addr):
			t.Fatalf("cutIPv4(%q) = %v, %q; ParseAddr has %v, %v", s, addr, rest, want, err)
		case !ok && err == nil && want.Is4():
			t.Fatalf("cutIPv4(%q) has none, ParseAddr has %v", s, want)
		}
		return ok
	}
	for _, s := range []string{
		"", ".", "0.0.0.0", "255.255.255.255", "256.0.0.1", "1.2.3", "1.2.3.", "1.2.3.4.", "1.2.3.4.5", ".1.2.3.4",
		"1..2.3", "01.2.3.4", "1.2.3.04", "1.2.3.00", "1.2.3.4:80", "1.2.3.4:", "1.2.3.4%eth0", "1.2.3.4 ", " 1.2.3.4",
		"1.2.3.0004", "1.2.3.99999999999999999999", "::1.2.3.4", "1.2.3.x", "1:2:3:4:5:6:7:8", "1", "4294967295",
	} {
		check(s)
	}
	random := rand.New(rand.NewPCG(1, 2))
	good := 0
	for range 200_000 {
		b := make([]byte, random.IntN(16))
		for i := range b {
			b[i] = "00112345...::9a%"[random.IntN(16)]
		}
		check(string(b))
		octet := func() string {
			return []string{"0", "1", "9", "10", "99", "100", "255", "256", "300", "1000", "00", "01", "", "001"}[min(random.IntN(20), 13)]
		}
		if check(octet() + "." + octet() + "." + octet() + "." + octet() + []string{"", "", ":80", ".", ".1", "x"}[random.IntN(6)]) {
			good++
		}
	}
	if good < 1000 {
		t.Fatalf("only %d of the texts held an address", good)
	}
}
