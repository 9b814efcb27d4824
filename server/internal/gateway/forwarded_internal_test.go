// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"reflect"
	"testing"
)

// TestSetForwarded: requests get the fields that ReverseProxy would set.
func TestSetForwarded(t *testing.T) {
	for _, remote := range []string{"192.0.2.1:1024", "[2001:db8::1]:80", "[fe80::1%eth0]:80", "192.0.2.1", "@", ""} {
		for _, secure := range []*tls.ConnectionState{nil, {}} {
			in := httptest.NewRequest(http.MethodGet, "/", nil)
			in.RemoteAddr, in.TLS, in.Host = remote, secure, "Front.example:8080"
			want := httputil.ProxyRequest{In: in, Out: &http.Request{Header: make(http.Header)}}
			want.SetXForwarded()
			got := make(http.Header)
			setForwarded(got, in)
			if !reflect.DeepEqual(got, want.Out.Header) {
				t.Errorf("%q: %v, want %v", remote, got, want.Out.Header)
			}
			ours := testing.AllocsPerRun(10, func() { setForwarded(got, in) })
			if theirs := testing.AllocsPerRun(10, func() {
				clear(want.Out.Header) // it adds to existing fields
				want.SetXForwarded()
			}); ours >= theirs {
				t.Errorf("%q: %v allocations, ReverseProxy has %v", remote, ours, theirs)
			}
			got.Add(xHost, "other") // by an inner handler
			if got[xProto][0] == "other" {
				t.Error("the fields share memory")
			}
		}
	}
}
