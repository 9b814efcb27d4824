// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import "testing"

// TestDivide: some descriptors of a process are reserved. Of the others every client has a
// second one for an upstream, and every request without its client has one.
func TestDivide(t *testing.T) {
	wanted := shares{clients: 20_000, abandoned: 1000, upstreams: 21_000}
	for _, c := range []struct {
		wanted      shares
		descriptors int64
		want        shares
	}{
		{wanted, 0, wanted},
		{wanted, 1 << 20, wanted},
		{wanted, 20_000, shares{9450, 1000, 10_450}},
		{wanted, 1024, shares{416, 92, 508}},
		{shares{300, 10, 20_010}, 1024, shares{300, 10, 624}},
		{wanted, 140, shares{18, 4, 22}},
		{wanted, 64, shares{1, 1, 1}}, // not enough for anything
	} {
		if got := divide(c.wanted, c.descriptors); got != c.want {
			t.Errorf("%v wanted of %d: got %v, want %v", c.wanted, c.descriptors, got, c.want)
		}
	}
	for descriptors := int64(reservedDescriptors + 10); descriptors < 100_000; descriptors += 7 {
		got := divide(wanted, descriptors)
		if got.clients+got.upstreams+reservedDescriptors > descriptors || got.upstreams < got.clients+got.abandoned {
			t.Fatalf("%d descriptors: got %+v", descriptors, got)
		}
	}
}
