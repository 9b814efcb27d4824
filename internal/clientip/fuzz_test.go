// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// Whatever a client sends in the header, its address is the one that the outermost trusted
// proxy saw: here client, behind two proxies. One proxy appends to the last line, the other
// adds a line.
const (
	client = "198.51.100.7"
	outer  = "10.1.1.1"
	inner  = "10.2.2.2:443"
)

func checkWalk(t *testing.T, header, forged string, element func(string) string) {
	t.Helper()
	f := finder(t, header, "10.0.0.0/8")
	lines := strings.Split(forged, "\n")
	if addr, ok := f.Client(client+":5000", http.Header{header: lines}); !ok || addr.String() != client {
		t.Fatalf("untrusted peer %s with header %q: got %v", client, lines, addr)
	}
	// A trusted peer that forwards the header unchanged is misconfigured; then any valid
	// address is accepted.
	if addr, ok := f.Client(inner, http.Header{header: lines}); !ok || !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() {
		t.Fatalf("header %q: got %v, %v", lines, addr, ok)
	}
	appended := append([]string(nil), lines...)
	appended[len(appended)-1] += ", " + element(client)
	chains := map[string][]string{
		"one proxy, appending":             appended,
		"one proxy, adding a line":         append(slices.Clip(lines), element(client)),
		"two proxies, appending":           append(appended[:len(appended)-1:len(appended)-1], appended[len(appended)-1]+","+element(outer)),
		"two proxies, the 2nd adds a line": append(slices.Clip(appended), element(outer)),
	}
	for name, chain := range chains {
		if addr, ok := f.Client(inner, http.Header{header: chain}); !ok || addr.String() != client {
			t.Fatalf("%s: header %q: got %v, want %s", name, chain, addr, client)
		}
	}
	for _, bits := range []string{"2001:db8::1", client} {
		if f.Group(netip.MustParseAddr(bits)) == "" {
			t.Fatalf("Group(%s) is empty", bits)
		}
	}
}

func FuzzXForwardedFor(f *testing.F) {
	for _, s := range []string{
		"", "1.1.1.1", "10.3.3.3", "1.1.1.1, 10.3.3.3", "10.3.3.3,", "[::1]:80", "::ffff:10.0.0.1", "fe80::1%eth0",
		"unknown", "\n", "10.3.3.3\n10.4.4.4", strings.Repeat("10.0.0.1,", 40), "[", "]", ":", "1.1.1.1:99999",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, forged string) {
		checkWalk(t, "X-Forwarded-For", forged, func(addr string) string { return addr })
	})
}

func FuzzForwarded(f *testing.F) {
	for _, s := range []string{
		"", "for=1.1.1.1", `for="[2001:db8::17]:4711";proto=https`, `for="`, `for="\`, `"`, `\"`, `for=10.3.3.3;host="a,`,
		"for=_x", "for=unknown", "for=10.3.3.3\nfor=10.4.4.4", ";;;", "for=;for=", `for="10.3.3.3`, strings.Repeat(`"\`, 300),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, forged string) {
		checkWalk(t, "Forwarded", forged, func(addr string) string { return `for="` + addr + `:80";host="a\",b";by=_me` })
	})
}

// FuzzXForwardedForEqualsPlainWalk: the walk equals a plain one over the split header, within
// its bounds on length and hops.
func FuzzXForwardedForEqualsPlainWalk(f *testing.F) {
	for _, s := range []string{"1.1.1.1, 10.3.3.3", "10.3.3.3", "x,10.3.3.3", "10.1.1.1\n10.2.2.2,10.3.3.3"} {
		f.Add(s)
	}
	trusted := netip.MustParsePrefix("10.0.0.0/8")
	f.Fuzz(func(t *testing.T, header string) {
		if len(header) > 200 || strings.Count(header, ",")+strings.Count(header, "\n") > 30 || strings.ContainsAny(header, "[]:%") {
			t.Skip()
		}
		want := netip.MustParseAddr("10.9.9.9")
		elements := strings.Split(strings.ReplaceAll(header, "\n", ","), ",")
		for i := len(elements) - 1; i >= 0 && trusted.Contains(want); i-- {
			addr, err := netip.ParseAddr(strings.Trim(elements[i], " \t"))
			if err != nil {
				break
			}
			want = addr
		}
		got, ok := finder(t, "X-Forwarded-For", trusted.String()).Client("10.9.9.9:1", http.Header{"X-Forwarded-For": strings.Split(header, "\n")})
		if !ok || got != want {
			t.Fatalf("header %q: got %v, want %v", header, got, want)
		}
	})
}
