// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package clientip_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice/internal/clientip"
)

func TestHops(t *testing.T) {
	const peer = "10.0.0.9:5000"
	long := strings.Repeat("x", 600)
	for _, c := range []struct {
		name   string
		hops   int
		header string
		lines  []string
		want   string
	}{
		{"the last", 1, "", []string{"192.0.2.1"}, "192.0.2.1"},
		{"what a client wrote is on the left", 1, "", []string{"198.51.100.7, 192.0.2.1"}, "192.0.2.1"},
		{"the second", 2, "", []string{"198.51.100.7, 192.0.2.1, 10.0.0.2"}, "192.0.2.1"},
		{"a line for each proxy", 2, "", []string{"198.51.100.7", "192.0.2.1", "10.0.0.2"}, "192.0.2.1"},
		{"lines of several", 3, "", []string{"198.51.100.7, 192.0.2.1", "10.0.0.3,10.0.0.2"}, "192.0.2.1"},
		{"with a port, mapped into IPv6", 1, "", []string{"[::ffff:192.0.2.1]:80"}, "192.0.2.1"},
		{"no header", 1, "", nil, "10.0.0.9"},
		{"an empty one", 1, "", []string{""}, "10.0.0.9"},
		{"fewer than hops", 3, "", []string{"192.0.2.1, 10.0.0.2"}, "10.0.0.9"},
		{"garbage at the place", 2, "", []string{"192.0.2.1, unknown, 10.0.0.2"}, "10.0.0.9"},
		{"an empty element at the place", 2, "", []string{"192.0.2.1,, 10.0.0.2"}, "10.0.0.9"},
		{"garbage behind the place counts", 2, "", []string{"198.51.100.7, 192.0.2.1, unknown"}, "192.0.2.1"},
		{"garbage in front of it", 1, "", []string{"\"; evil, " + long, long + ",192.0.2.1"}, "192.0.2.1"},
		{"an element without end", 2, "", []string{"192.0.2.1, " + long}, "10.0.0.9"},
		{"Forwarded", 2, "Forwarded", []string{`for="198.51.100.7`, `for=192.0.2.1;proto=https, for=10.0.0.2`}, "192.0.2.1"},
		{"Forwarded, hidden", 1, "forwarded", []string{"for=192.0.2.1, for=_hidden"}, "10.0.0.9"},
		{"a field of one address", 1, "X-Real-IP", []string{"192.0.2.1"}, "192.0.2.1"},
		{"a field of one address, sent twice", 1, "X-Real-IP", []string{"198.51.100.7", "192.0.2.1"}, "192.0.2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := clientip.New(clientip.Options{Hops: c.hops, Header: c.header})
			if err != nil {
				t.Fatal(err)
			}
			name := http.CanonicalHeaderKey(c.header)
			if name == "" {
				name = "X-Forwarded-For"
			}
			if got, _ := f.Client(peer, http.Header{name: c.lines}); got.String() != c.want {
				t.Errorf("got %v, want %s", got, c.want)
			}
			if !f.Trusts(netip.MustParseAddr("192.0.2.9")) {
				t.Error("a peer is not taken for a proxy")
			}
		})
	}
	for _, o := range []clientip.Options{{Hops: -1}, {Hops: 17}, {Hops: 1, Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}} {
		if _, err := clientip.New(o); err == nil || !strings.Contains(err.Error(), "Hops") {
			t.Errorf("%+v: got %v", o, err)
		}
	}
}

// TestHopsOutOfReach: behind as many proxies as hops, a client cannot change its address,
// whether proxies append to a line or add one.
func TestHopsOutOfReach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		hops := rapid.IntRange(1, 16).Draw(t, "hops")
		header := rapid.SampledFrom([]string{"X-Forwarded-For", "Forwarded", "X-Chain"}).Draw(t, "header")
		f, err := clientip.New(clientip.Options{Hops: hops, Header: header})
		if err != nil {
			t.Fatal(err)
		}
		sent := rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9a-f.:, ";=\\forx\[\]]{0,700}`))
		lines := rapid.SliceOfN(sent, 0, 40).Draw(t, "sent")
		for i := range hops {
			written := netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}).String() // 192.0.2.1 is the client
			if header == "Forwarded" {
				written = "for=" + written
			}
			if len(lines) > 0 && rapid.Bool().Draw(t, "appends") {
				lines[len(lines)-1] += ", " + written
			} else {
				lines = append(lines, written)
			}
		}
		if got, _ := f.Client("10.0.0.9:1", http.Header{header: lines}); got.String() != "192.0.2.1" {
			t.Fatalf("got %v of %q", got, lines)
		}
	})
}
