// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/clientip"
)

func prefixes(t testing.TB, texts ...string) []netip.Prefix {
	t.Helper()
	out := make([]netip.Prefix, len(texts))
	for i, s := range texts {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = p
	}
	return out
}

func finder(t testing.TB, header string, trusted ...string) *clientip.Finder {
	t.Helper()
	f, err := clientip.New(clientip.Options{Trusted: prefixes(t, trusted...), Header: header})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// walk is a test case. Its header lines are separated by |.
type walk struct {
	name, remote, lines, want string
}

func run(t *testing.T, f *clientip.Finder, header string, cases []walk) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := http.Header{}
			for line := range strings.SplitSeq(c.lines, "|") {
				h.Add(header, line)
			}
			addr, ok := f.Client(c.remote, h)
			got := ""
			if ok {
				got = addr.String()
			}
			if got != c.want {
				t.Errorf("Client(%q, %q) = %q, want %q", c.remote, c.lines, got, c.want)
			}
		})
	}
}

func TestXForwardedFor(t *testing.T) {
	f := finder(t, "X-Forwarded-For", "10.0.0.0/8", "2001:db8:ffff::/48", "::ffff:192.168.7.0/120")
	run(t, f, "X-Forwarded-For", []walk{
		{"peer is not trusted: the header is not read", "203.0.113.9:1", "1.1.1.1", "203.0.113.9"},
		{"one proxy", "10.0.0.1:1", "198.51.100.7", "198.51.100.7"},
		{"what the client wrote lies to the left", "10.0.0.1:1", "1.1.1.1, 198.51.100.7", "198.51.100.7"},
		{"two proxies", "10.0.0.1:1", "1.1.1.1, 198.51.100.7, 10.9.9.9", "198.51.100.7"},
		{"a client that names a trusted address gains nothing", "10.0.0.1:1", "10.2.2.2, 198.51.100.7", "198.51.100.7"},
		{"lines are joined in order", "10.0.0.1:1", "1.1.1.1|198.51.100.7|10.9.9.9", "198.51.100.7"},
		{"lines with several elements", "10.0.0.1:1", "1.1.1.1, 2.2.2.2|198.51.100.7, 10.9.9.9", "198.51.100.7"},
		{"all trusted: the leftmost", "10.0.0.1:1", "10.3.3.3, 10.2.2.2", "10.3.3.3"},
		{"no header", "10.0.0.1:1", "", "10.0.0.1"},
		{"garbage stops the walk at the last good hop", "10.0.0.1:1", "198.51.100.7, unknown, 10.2.2.2", "10.2.2.2"},
		{"garbage of the last proxy is not skipped", "10.0.0.1:1", "198.51.100.7, oops", "10.0.0.1"},
		{"an empty element is garbage", "10.0.0.1:1", "198.51.100.7, , 10.2.2.2", "10.2.2.2"},
		{"an empty line is garbage", "10.0.0.1:1", "198.51.100.7||10.2.2.2", "10.2.2.2"},
		{"no white space", "10.0.0.1:1", "1.1.1.1,198.51.100.7,10.2.2.2", "198.51.100.7"},
		{"tabs", "10.0.0.1:1", "\t198.51.100.7\t,\t10.2.2.2\t", "198.51.100.7"},
		{"port", "10.0.0.1:1", "198.51.100.7:4711", "198.51.100.7"},
		{"mapped, in brackets, with a port", "10.0.0.1:1", "[::ffff:198.51.100.7]:4711", "198.51.100.7"},
		{"IPv6, all of it", "10.0.0.1:1", "2001:0DB8:0006:0001:0000:0000:0000:0001", "2001:db8:6:1::1"},
		{"commas before", "10.0.0.1:1", ",,,198.51.100.7", "198.51.100.7"},
		{"a comma behind", "10.0.0.1:1", "198.51.100.7,", "10.0.0.1"},
		{"a blank for a comma", "10.0.0.1:1", "1.1.1.1 198.51.100.7", "10.0.0.1"},
		{"zeros in front", "10.0.0.1:1", "0198.51.100.7", "10.0.0.1"},
		{"IPv6 bare", "10.0.0.1:1", "2001:db8::17", "2001:db8::17"},
		{"IPv6 in brackets", "10.0.0.1:1", "[2001:db8::17]", "2001:db8::17"},
		{"IPv6 with a port", "10.0.0.1:1", "[2001:db8::17]:4711", "2001:db8::17"},
		{"IPv6 with a zone", "10.0.0.1:1", "fe80::1%eth0", "fe80::1"},
		{"IPv6 with zone and port", "10.0.0.1:1", "[fe80::1%eth0]:80", "fe80::1"},
		{"IPv6 peer with a zone", "[fe80::2%eth0]:80", "1.1.1.1", "fe80::2"},
		{"trusted IPv6 peer", "[2001:db8:ffff::1]:80", "198.51.100.7", "198.51.100.7"},
		{"mapped peer is IPv4", "[::ffff:10.0.0.1]:80", "198.51.100.7", "198.51.100.7"},
		{"mapped element is IPv4", "10.0.0.1:1", "198.51.100.7, ::ffff:10.2.2.2", "198.51.100.7"},
		{"mapped prefix is IPv4", "192.168.7.7:1", "198.51.100.7", "198.51.100.7"},
		{"NAT64 of a trusted address is not trusted", "10.0.0.1:1", "198.51.100.7, 64:ff9b::a00:1", "64:ff9b::a00:1"},
		{"port out of range", "10.0.0.1:1", "198.51.100.7:65536", "10.0.0.1"},
		{"port without digits", "10.0.0.1:1", "198.51.100.7:", "10.0.0.1"},
		{"IPv4 in brackets", "10.0.0.1:1", "[198.51.100.7]", "10.0.0.1"},
		{"open bracket", "10.0.0.1:1", "[2001:db8::17", "10.0.0.1"},
		{"leading zeros", "10.0.0.1:1", "198.051.100.007", "10.0.0.1"},
		{"network in place of an address", "10.0.0.1:1", "198.51.100.0/24", "10.0.0.1"},
		{"quoted", "10.0.0.1:1", `"198.51.100.7"`, "10.0.0.1"},
		{"remote without a port", "10.0.0.1", "198.51.100.7", "198.51.100.7"},
		{"Unix socket", "@", "198.51.100.7", ""},
		{"no remote", "", "198.51.100.7", ""},
		{"long white space is garbage", "10.0.0.1:1", "1.1.1.1," + strings.Repeat(" ", 600) + "10.2.2.2", "10.0.0.1"},
		{"more hops than anyone has", "10.0.0.1:1", "1.1.1.1" + strings.Repeat(",10.2.2.2", clientip.MaxHops), "10.2.2.2"},
		{"as many hops as are read", "10.0.0.1:1", "1.1.1.1" + strings.Repeat(",10.2.2.2", clientip.MaxHops-1), "1.1.1.1"},
	})
}

func TestForwarded(t *testing.T) {
	f := finder(t, "forwarded", "10.0.0.0/8")
	run(t, f, "Forwarded", []walk{
		{"peer is not trusted", "203.0.113.9:1", "for=1.1.1.1", "203.0.113.9"},
		{"token", "10.0.0.1:1", "for=192.0.2.43", "192.0.2.43"},
		{"name in another case, other parameters", "10.0.0.1:1", "proto=https;FOR=192.0.2.43;by=203.0.113.60", "192.0.2.43"},
		{"quoted IPv6 with a port", "10.0.0.1:1", `for="[2001:db8:cafe::17]:4711"`, "2001:db8:cafe::17"},
		{"quoted IPv4 with a port", "10.0.0.1:1", `for="192.0.2.43:47011"`, "192.0.2.43"},
		{"obfuscated port", "10.0.0.1:1", `for="192.0.2.43:_p1"`, "192.0.2.43"},
		{"from the right", "10.0.0.1:1", "for=1.1.1.1, for=192.0.2.43;proto=http, for=10.2.2.2", "192.0.2.43"},
		{"lines are joined", "10.0.0.1:1", "for=1.1.1.1|for=192.0.2.43|for=10.2.2.2", "192.0.2.43"},
		{"unknown stops", "10.0.0.1:1", "for=192.0.2.43, for=unknown, for=10.2.2.2", "10.2.2.2"},
		{"obfuscated stops", "10.0.0.1:1", "for=192.0.2.43, for=_hidden", "10.0.0.1"},
		{"an element without for stops", "10.0.0.1:1", "for=192.0.2.43, proto=https", "10.0.0.1"},
		{"for twice stops", "10.0.0.1:1", "for=192.0.2.43;for=192.0.2.44", "10.0.0.1"},
		{"comma within quotes", "10.0.0.1:1", `for=192.0.2.43;host="a,b;c"`, "192.0.2.43"},
		{"escaped quote within quotes", "10.0.0.1:1", `for=1.1.1.1, for=192.0.2.43;host="a\",for=2.2.2.2"`, "192.0.2.43"},
		{"escaped backslash ends the quotes", "10.0.0.1:1", `for=1.1.1.1, host="a\\";for=192.0.2.43`, "192.0.2.43"},
		{"a client's open quote swallows nothing", "10.0.0.1:1", `for="1.1.1.1, for=192.0.2.43`, "192.0.2.43"},
		{"a client's open quote and a quoted element", "10.0.0.1:1", `for="1.1.1.1, for="[2001:db8::1]"`, "2001:db8::1"},
		{"a quote that is left open stops", "10.0.0.1:1", `for=192.0.2.43;host="a`, "10.0.0.1"},
		{"escapes in an address", "10.0.0.1:1", `for="192.0.2\.43"`, "10.0.0.1"},
		{"semicolon at the end", "10.0.0.1:1", `for=192.0.2.43;`, "192.0.2.43"},
		{"a parameter without a value stops", "10.0.0.1:1", `for=192.0.2.43;secure`, "10.0.0.1"},
		{"X-Forwarded-For's form stops", "10.0.0.1:1", "192.0.2.43", "10.0.0.1"},
		{"space around the equals sign stops", "10.0.0.1:1", "for = 192.0.2.43", "10.0.0.1"},
		{"element too long", "10.0.0.1:1", `for=192.0.2.43;host="` + strings.Repeat("x", 600) + `"`, "10.0.0.1"},
	})
}

func TestSingleAddressHeader(t *testing.T) {
	f := finder(t, "x-real-ip", "10.0.0.0/8")
	run(t, f, "X-Real-IP", []walk{
		{"peer is not trusted", "203.0.113.9:1", "1.1.1.1", "203.0.113.9"},
		{"one address", "10.0.0.1:1", "198.51.100.7", "198.51.100.7"},
		{"with a port", "10.0.0.1:1", " [2001:db8::1]:9 ", "2001:db8::1"},
		{"a list is not one address", "10.0.0.1:1", "1.1.1.1, 198.51.100.7", "10.0.0.1"},
		{"two lines: neither is trusted", "10.0.0.1:1", "1.1.1.1|198.51.100.7", "10.0.0.1"},
		{"garbage", "10.0.0.1:1", "localhost", "10.0.0.1"},
		{"none", "10.0.0.1:1", "", "10.0.0.1"},
	})
}

// TestOtherHeadersAreNotRead: only the configured header is read.
func TestOtherHeadersAreNotRead(t *testing.T) {
	all := http.Header{
		"X-Forwarded-For": {"1.1.1.1"}, "Forwarded": {"for=2.2.2.2"},
		"X-Real-Ip": {"3.3.3.3"}, "True-Client-Ip": {"4.4.4.4"},
	}
	for header, want := range map[string]string{
		"": "1.1.1.1", "X-Forwarded-For": "1.1.1.1", "Forwarded": "2.2.2.2", "X-Real-IP": "3.3.3.3", "True-Client-IP": "4.4.4.4", "X-Other": "10.0.0.1",
	} {
		addr, ok := finder(t, header, "10.0.0.0/8").Client("10.0.0.1:1", all)
		if got := addr.String(); !ok || got != want {
			t.Errorf("header %q: got %s, want %s", header, got, want)
		}
	}
	addr, _ := finder(t, "").Client("10.0.0.1:1", all)
	if got, want := addr.String(), "10.0.0.1"; got != want {
		t.Errorf("nothing trusted: got %s, want %s", got, want)
	}
}

func TestGroup(t *testing.T) {
	cases := []struct {
		name         string
		bits4, bits6 int
		addr, want   string
	}{
		{"IPv4 is by itself", 0, 0, "192.0.2.43", "192.0.2.43"},
		{"IPv4 prefix", 24, 0, "192.0.2.43", "192.0.2.0/24"},
		{"IPv6 by /64", 0, 0, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{"IPv6 by /56", 0, 56, "2001:db8:1:2ff:3:4:5:6", "2001:db8:1:200::/56"},
		{"IPv6 by itself", 0, 128, "2001:db8::1", "2001:db8::1"},
		{"zone", 0, 128, "fe80::1%eth0", "fe80::1"},
		{"mapped", 0, 0, "::ffff:192.0.2.43", "192.0.2.43"},
		{"NAT64", 0, 0, "64:ff9b::c000:22b", "192.0.2.43"},
		{"NAT64 by IPv4 prefix", 24, 0, "64:ff9b::c000:22b", "192.0.2.0/24"},
		{"NAT64 of a private address is nobody's", 0, 0, "64:ff9b::a00:1", "64:ff9b::/64"},
		{"NAT64 of loopback", 0, 0, "64:ff9b::7f00:1", "64:ff9b::/64"},
		{"beside NAT64", 0, 0, "64:ff9b::1:c000:22b", "64:ff9b::/64"},
		{"6to4", 0, 0, "2002:c000:22b:9:8:7:6:5", "192.0.2.43"},
		{"6to4 of a private address", 0, 0, "2002:a00:1:9:8:7:6:5", "2002:a00:1:9::/64"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f, err := clientip.New(clientip.Options{IPv4Bits: c.bits4, IPv6Bits: c.bits6})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Group(netip.MustParseAddr(c.addr)); got != c.want {
				t.Errorf("Group(%s) = %s, want %s", c.addr, got, c.want)
			}
		})
	}
}

func TestNewNamesEveryFault(t *testing.T) {
	_, err := clientip.New(clientip.Options{Trusted: []netip.Prefix{{}}, Header: "X Y", IPv4Bits: 33, IPv6Bits: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"IPv4Bits: 33", "IPv6Bits: -1", "Trusted: ", `Header: "X Y"`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in: %v", want, err)
		}
	}
	_, err = clientip.New(clientip.Options{Header: "X-Real-IP"})
	if err == nil || !strings.Contains(err.Error(), "list their networks") {
		t.Errorf("a header that nobody is trusted with: got error %v", err)
	}
}

// TestLongHeadersCostNothing: the part read of a header is bounded: bytes beyond it neither
// change the result nor cause allocations.
func TestLongHeadersCostNothing(t *testing.T) {
	const size = 1 << 20
	for name, long := range map[string]string{
		"commas":      strings.Repeat(",", size),
		"spaces":      strings.Repeat(" ", size),
		"digits":      strings.Repeat("1", size),
		"quotes":      strings.Repeat(`"`, size),
		"backslashes": strings.Repeat(`\`, size) + `"`,
		"trusted":     strings.Repeat("10.0.0.2,", size/9),
		"for":         strings.Repeat("for=10.0.0.2,", size/13),
	} {
		for _, header := range []string{"X-Forwarded-For", "Forwarded", "X-Real-Ip"} {
			f := finder(t, header, "10.0.0.0/8")
			h := http.Header{header: {long + "for=198.51.100.7", long}}
			var addr netip.Addr
			allocs := testing.AllocsPerRun(10, func() { addr, _ = f.Client("10.0.0.1:1", h) })
			if !netip.MustParsePrefix("10.0.0.0/30").Contains(addr) {
				t.Errorf("%s in %s: got %v, want a trusted hop", name, header, addr)
			}
			// A text that begins like an address makes netip.ParseAddr allocate one error,
			// once per walk, as it ends the walk.
			if allocs > 1 {
				t.Errorf("%s in %s: %v allocations", name, header, allocs)
			}
		}
	}
}

func TestClientDoesNotAllocate(t *testing.T) {
	f := finder(t, "", "10.0.0.0/8", "2001:db8:ffff::/48")
	h := http.Header{"X-Forwarded-For": {"1.1.1.1, [2001:db8::1]:443, 10.2.2.2"}}
	if got := testing.AllocsPerRun(100, func() { f.Client("10.0.0.1:1", h) }); got != 0 {
		t.Errorf("Client: %v allocations, want 0", got)
	}
	addr := netip.MustParseAddr("2001:db8::1")
	if got := testing.AllocsPerRun(100, func() { f.Group(addr) }); got > 1 {
		t.Errorf("Group: %v allocations, want 1, the text", got)
	}
}
