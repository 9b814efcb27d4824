// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/clientip"
)

func TestAdmission(t *testing.T) {
	networks := func(text string) (all []netip.Prefix) {
		for p := range strings.FieldsSeq(text) {
			all = append(all, netip.MustParsePrefix(p))
		}
		return all
	}
	for _, c := range []struct {
		allow, deny, client string
		want                bool
	}{
		{"", "", "192.0.2.1", true},
		{"", "", "", true},
		{"192.0.2.0/24 2001:db8::/32", "", "192.0.2.1", true},
		{"192.0.2.0/24 2001:db8::/32", "", "2001:db8:1::1%eth0", true},
		{"192.0.2.0/24 2001:db8::/32", "", "::ffff:192.0.2.1", true},
		{"192.0.2.0/24 2001:db8::/32", "", "198.51.100.1", false},
		{"192.0.2.0/24", "", "", false},
		{"::ffff:192.0.2.0/120", "", "192.0.2.1", true},
		{"", "192.0.2.7/32", "192.0.2.7", false},
		{"", "192.0.2.7/32", "192.0.2.8", true},
		{"192.0.2.0/24", "192.0.2.7/32", "192.0.2.7", false},
	} {
		a := clientip.NewAdmission(networks(c.allow), networks(c.deny))
		var client netip.Addr
		if c.client != "" {
			client = netip.MustParseAddr(c.client)
		}
		if got := a.Admits(client); got != c.want {
			t.Errorf("allow %q, deny %q, client %q: got %v, want %v", c.allow, c.deny, c.client, got, c.want)
		}
	}
}
