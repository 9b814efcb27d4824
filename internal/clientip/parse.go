// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip

import (
	"net/netip"
	"strings"
)

// maxElement is the longest element of a header in bytes, white space included. It bounds the
// work on any header: with MaxHops, to 16 KiB.
const maxElement = 512

// lastListed returns the text after the last comma of line, and the rest.
func lastListed(line string) (element, rest string, more, ok bool) {
	before := max(len(line)-maxElement-1, 0) // which are not read
	if i := strings.LastIndexByte(line[before:], ','); i >= 0 {
		return line[before+i+1:], line[:before+i], true, true
	}
	return line, "", false, len(line) <= maxElement
}

// lastForwarded returns the last element of a line of RFC 7239, and the rest. It reads from
// the right, so that an open quote of a client on the left cannot swallow a proxy's element.
func lastForwarded(line string) (element, rest string, more, ok bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch {
		case len(line)-i > maxElement:
			return "", "", false, false
		case line[i] == '"' && !(quoted && escaped(line[:i])):
			quoted = !quoted
		case line[i] == ',' && !quoted:
			return line[i+1:], line[:i], true, true
		}
	}
	return line, "", false, !quoted
}

// escaped reports whether an odd number of backslashes ends s. It counts at most maxElement of
// them.
func escaped(s string) bool {
	n := 0
	for n < len(s) && n < maxElement && s[len(s)-1-n] == '\\' {
		n++
	}
	return n%2 == 1
}

// parseForwarded returns the address of the for parameter of an element such
// as: for="[2001:db8::17]:4711";proto=https.
func parseForwarded(element string) (addr netip.Addr, found bool) {
	for rest, more := element, true; more; {
		var pair string
		if pair, rest, more = cutPair(rest); trim(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(trim(pair), "=")
		if !ok {
			return netip.Addr{}, false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found { // two of them violate RFC 7239: the client is unknown
			return netip.Addr{}, false
		}
		if value, ok = unquote(value); !ok {
			return netip.Addr{}, false
		}
		if addr, found = parseHop(value); !found {
			return netip.Addr{}, false
		}
	}
	return addr, found
}

// cutPair cuts s at the first semicolon outside quotes.
func cutPair(s string) (pair, rest string, more bool) {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == '\\' && quoted:
			i++
		case s[i] == ';' && !quoted:
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// unquote returns the content of a token or quoted string. Addresses need no escapes, so a
// value with one is refused.
func unquote(s string) (string, bool) {
	if !strings.HasPrefix(s, `"`) {
		return s, true
	}
	if len(s) < 2 || s[len(s)-1] != '"' || strings.ContainsAny(s[1:len(s)-1], `"\`) {
		return "", false
	}
	return s[1 : len(s)-1], true
}

// parseHop reads an address with or without a port: 192.0.2.1, 192.0.2.1:80, 2001:db8::1,
// [2001:db8::1], [2001:db8::1%eth0]:80. The port may be an obfuscated one of RFC 7239, :_x.
// The zone is dropped, and a mapped address becomes IPv4.
func parseHop(s string) (netip.Addr, bool) {
	host, port := s, ""
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 || !strings.Contains(s[:end], ":") {
			return netip.Addr{}, false
		}
		host, port = s[1:end], s[end+1:]
	} else if i := strings.IndexByte(s, ':'); i >= 0 && strings.IndexByte(s[i+1:], ':') < 0 {
		host, port = s[:i], s[i:]
	}
	if port != "" && !validPort(port) {
		return netip.Addr{}, false
	}
	if !mayBeAddr(host) { // avoids the error that ParseAddr would allocate
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}, false
	}
	if !addr.Is4() {
		addr = addr.WithZone("").Unmap()
	}
	return addr, true
}

func mayBeAddr(s string) bool {
	return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] >= 'a' && s[0] <= 'f' || s[0] >= 'A' && s[0] <= 'F' || s[0] == ':')
}

// validPort reports whether s is a colon with a port or an obfuscated one.
func validPort(s string) bool {
	if len(s) < 2 || s[0] != ':' {
		return false
	}
	if s[1] == '_' {
		return len(s) > 2
	}
	n := 0
	for _, c := range []byte(s[1:]) {
		if c < '0' || c > '9' || n > 65535 {
			return false
		}
		n = n*10 + int(c-'0')
	}
	return n <= 65535
}

// trim removes the white space of RFC 9110 from both ends.
func trim(s string) string {
	for s != "" && blank(s[0]) {
		s = s[1:]
	}
	for s != "" && blank(s[len(s)-1]) {
		s = s[:len(s)-1]
	}
	return s
}

func blank(c byte) bool { return c == ' ' || c == '\t' }
