// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
)

// Fault returns the fault of a request whose method, target, host or length servers may read
// in another way than it was evaluated, or "" if it has none. A transport writes some hosts
// differently than it read them: without the zone of an address, or with other letters.
func Fault(r *http.Request) string {
	switch {
	case r.URL.Opaque != "": // such as "GET x:/login": others read a path or a host
		return "the request's target is neither a path nor a URL of http"
	case r.URL.RawQuery != "" && strings.IndexByte(r.URL.RawQuery, ' ') >= 0: // as over HTTP/2: a space ends the target in HTTP/1
		return "the request's query has a space that is not escaped"
	case !plainHost(r.Host):
		return "the request's host is not a name, or an address without a zone, with at most a port behind it"
	case !Token(r.Method):
		return "the request's method is not one word"
	case r.ProtoMajor == 2 && !oneLength(r.Header["Content-Length"]):
		return "the request's Content-Length is not one number"
	}
	return ""
}

// oneLength reports whether the values of Content-Length are the same number, or there are
// none. The server of HTTP/1.1 refuses others; that of HTTP/2 reads the first, and 0 if it is
// not a number.
func oneLength(values []string) bool {
	for _, v := range values {
		if _, err := strconv.ParseUint(v, 10, 63); err != nil || v != values[0] {
			return false
		}
	}
	return true
}

// plainHost reports whether all servers read a host alike. An empty host is plain.
func plainHost(host string) bool {
	var rest string
	if inner, ok := strings.CutPrefix(host, "["); ok {
		var closed bool
		inner, rest, closed = strings.Cut(inner, "]")
		addr, err := netip.ParseAddr(inner)
		if !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return false
		}
	} else {
		n := 0
		for n < len(host) && partOf[host[n]]&ofHost != 0 {
			n++
		}
		rest = host[n:]
	}
	if rest == "" {
		return true
	}
	for i := 1; i < len(rest); i++ {
		if rest[i] < '0' || rest[i] > '9' {
			return false
		}
	}
	return rest[0] == ':'
}

// Token reports whether s is a token of RFC 9110, section 5.6.2: the name of a field, or a
// method.
func Token(s string) bool {
	for i := range len(s) {
		if partOf[s[i]]&ofToken == 0 {
			return false
		}
	}
	return s != ""
}

// The texts that a byte may be part of.
const (
	ofToken = 1 << iota
	ofHost
)

// partOf holds the texts that each byte may be part of.
var partOf = func() (all [256]uint8) {
	put := func(chars string, of uint8) {
		for i := range len(chars) {
			all[chars[i]] |= of
		}
	}
	put("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", ofToken|ofHost)
	put("!#$%&'*+-.^_`|~", ofToken)
	put("-._~", ofHost)
	return all
}()
