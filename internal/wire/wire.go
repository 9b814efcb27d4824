// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package wire reads parts of requests that servers read in different ways, so that a limit
// applies to the request that the application sees.
package wire

import (
	"maps"
	"net/http"
	"net/netip"
	"net/textproto"
	"strings"
)

// OwnLimits is the path at which a client may ask for the remaining units of its own keys.
const OwnLimits = "/.well-known/ratelimit"

// Host returns the host of a Host field or a URL's authority in the form in which hosts are
// compared: in lower case, without a port and without trailing dots; an IPv6 address is in
// brackets and in its shortest form. Text after the first colon is ignored.
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

// EndToEnd returns the request without the header fields that its Connection field names, which
// are for this hop and not passed on by a proxy. The request itself does not change.
func EndToEnd(r *http.Request) *http.Request {
	if lines := r.Header["Connection"]; len(lines) > 0 {
		return without(r, lines)
	}
	return r
}

// without is EndToEnd with the lines of Connection.
func without(r *http.Request, lines []string) *http.Request {
	var kept http.Header
	for _, line := range lines {
		for option := range strings.SplitSeq(line, ",") {
			name := http.CanonicalHeaderKey(textproto.TrimString(option))
			if _, sent := r.Header[name]; !sent || ofConnection(name) {
				continue
			}
			if kept == nil {
				kept = maps.Clone(r.Header)
			}
			delete(kept, name)
		}
	}
	if kept == nil {
		return r
	}
	copied := *r
	copied.Header = kept
	return &copied
}

// ofConnection reports whether a field is for the proxy itself: about the connection, or about
// earlier hops.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Upgrade", "Te", "Forwarded":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}
