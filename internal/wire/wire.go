// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package wire reads parts of requests that servers read in more than one way,
// so that a limit is about what the application behind it sees.
package wire

import (
	"maps"
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

// EndToEnd returns the request without the header fields that its Connection
// field names: they are for this hop, and a proxy does not pass them on. The
// request itself stays as it is.
func EndToEnd(r *http.Request) *http.Request {
	if lines := r.Header["Connection"]; len(lines) > 0 {
		return without(r, lines)
	}
	return r
}

// without is EndToEnd by the lines of Connection.
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

// ofConnection reports whether a field is for the proxy itself to see: about the
// connection, or about where the request came from before.
func ofConnection(name string) bool {
	switch name {
	case "Connection", "Upgrade", "Te", "Forwarded":
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}
