// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"reflect"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

func TestHost(t *testing.T) {
	for _, c := range []struct{ authority, want string }{
		{"", ""},
		{"api.example.com", "api.example.com"},
		{"API.Example.com:8443", "api.example.com"},
		{"api.example.com.", "api.example.com"},
		{"api.example.com..:80", "api.example.com"},
		{"api.example.com:80:80", "api.example.com"},
		{"192.0.2.1:80", "192.0.2.1"},
		{"[::1]", "[::1]"},
		{"[::1]:80", "[::1]"},
		{"[0:0::0:1]:80", "[::1]"},
		{"[2001:DB8::A]", "[2001:db8::a]"},
		{"[v1.X]:80", "[v1.x]"},
		{"[::1", "[::1]"},
		{":80", ""},
	} {
		if got := wire.Host(c.authority); got != c.want {
			t.Errorf("%q: got %q, want %q", c.authority, got, c.want)
		}
	}
}

// TestEndToEnd: only the fields that Connection names are missing.
func TestEndToEnd(t *testing.T) {
	for _, c := range []struct {
		name       string
		connection []string
		gone       []string
	}{
		{"none", nil, nil},
		{"of the connection", []string{"close", "keep-alive, Upgrade, TE"}, nil},
		{"a field", []string{"X-Api-Key"}, []string{"X-Api-Key"}},
		{"in small letters", []string{"x-api-key"}, []string{"X-Api-Key"}},
		{"fields", []string{"close,cookie ,, X-Api-Key", "\tCookie"}, []string{"X-Api-Key", "Cookie"}},
		{"what was not sent", []string{"X-Other"}, nil},
		{"itself", []string{"Connection"}, nil},
		{"where it came from", []string{"X-Forwarded-For, Forwarded"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			sent := http.Header{"X-Api-Key": {"k"}, "Cookie": {"a=b"}, "Upgrade": {"websocket"}, "Te": {"trailers"}, "X-Forwarded-For": {"192.0.2.1"}, "Forwarded": {"for=192.0.2.1"}}
			if c.connection != nil {
				sent["Connection"] = c.connection
			}
			want := sent.Clone()
			for _, name := range c.gone {
				want.Del(name)
			}
			r := &http.Request{Header: sent, Method: http.MethodGet}
			before := sent.Clone()
			got := wire.EndToEnd(r)
			if !reflect.DeepEqual(got.Header, want) || got.Method != http.MethodGet {
				t.Errorf("got %v, want %v", got.Header, want)
			}
			if !reflect.DeepEqual(r.Header, before) {
				t.Errorf("the request has now %v, it had %v", r.Header, before)
			}
		})
	}
}
