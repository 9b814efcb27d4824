// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// addressFields are header fields in which proxies, and clients too, write a client's address.
var addressFields = []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip", "X-Client-Ip", "Fastly-Client-Ip"}

// forged warns of keys made of an address that clients can write themselves.
func forged(r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		for _, p := range leaves(r.Levels[i].By) {
			if p.Source == source.Header && slices.Contains(addressFields, p.Name) {
				texts = append(texts, fmt.Sprintf("a client may write %s itself, and has a budget for each address that it writes; use by: ip, and client_ip: {trusted: NETWORK, header: %s} with the proxies' network", p.Name, p.Name))
			}
		}
	}
	return texts
}

// proxyWarnings warns of clients that are trusted as proxies.
func proxyWarnings(c *config.Config) []string {
	wide := everywhere(c.ClientIP.Trusted)
	if wide == "" {
		return nil
	}
	return []string{fmt.Sprintf("client_ip trusts %s, so any client may write its own address into %s; list the proxies' networks, or set client_ip: {hops: N} with how many proxies a request passes",
		wide, cmp.Or(c.ClientIP.Header, "X-Forwarded-For"))}
}

// everywhere returns the first network larger than 10.0.0.0/8 or fc00::/7, which is too large
// for proxies alone, or "".
func everywhere(networks []netip.Prefix) string {
	for _, n := range networks {
		least := 7
		if n.Addr().Unmap().Is4() {
			least = n.Addr().BitLen() - 32 + 8
		}
		if n.Bits() < least {
			return n.String()
		}
	}
	return ""
}
