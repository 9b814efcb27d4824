// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package wire reads parts of requests that servers read in more than one way,
// so that a limit is about what the application behind it sees.
package wire

import (
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// Host returns the host of a Host field or a URL's authority as it is compared:
// lower case, without a port and without dots at its end; an IPv6 address is in
// brackets and as short as it can be. Nothing behind the first colon counts.
func Host(authority string) string {
	if inner, ok := strings.CutPrefix(authority, "["); ok {
		inner, _, _ = strings.Cut(inner, "]")
		if addr, err := netip.ParseAddr(inner); err == nil {
			inner = addr.String()
		}
		return "[" + strings.ToLower(inner) + "]"
	}
	name, _, _ := strings.Cut(authority, ":")
	return strings.ToLower(strings.TrimRight(name, "."))
}

// Cookies returns the values of all cookies of a name. It is not ok if there is
// one among them that RFC 6265 does not allow: net/http leaves such a cookie out,
// while an application may well have a use for it.
func Cookies(r *http.Request, name string) (values []string, ok bool) {
	for _, c := range r.CookiesNamed(name) {
		values = append(values, c.Value)
	}
	named := 0
	for _, line := range r.Header["Cookie"] {
		for part := range strings.SplitSeq(line, ";") {
			key, _, _ := strings.Cut(part, "=")
			if textproto.TrimString(key) == name {
				named++
			}
		}
	}
	return values, named == len(values)
}
