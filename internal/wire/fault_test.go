// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package wire_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

func TestFault(t *testing.T) {
	for _, c := range []struct{ method, host, opaque, query, want string }{
		{method: "GET"},
		{method: "M-SEARCH", host: "app.example"},
		{method: "get", host: "My_App-1.example.:8080"},
		{method: "GET", host: "xn--bcher-kva.example:"},
		{method: "GET", host: "192.0.2.1:80"},
		{method: "GET", host: "[2001:db8::1]"},
		{method: "GET", host: "[2001:db8::1]:8080"},
		{method: "GET", host: "[::ffff:192.0.2.1]"},
		{method: "GET", host: "[2001:db8::1%eth0]", want: "host"},
		{method: "GET", host: "[2001:db8::1]x", want: "host"},
		{method: "GET", host: "[2001:db8::1", want: "host"},
		{method: "GET", host: "[192.0.2.1]", want: "host"},
		{method: "GET", host: "[v7.x]", want: "host"},
		{method: "GET", host: "2001:db8::1", want: "host"},
		{method: "GET", host: "bücher.example", want: "host"},
		{method: "GET", host: "app.example:80:80", want: "host"},
		{method: "GET", host: "app.example:http", want: "host"},
		{method: "GET", host: "app%2eexample", want: "host"},
		{method: "GET", host: "app.example/", want: "host"},
		{method: "GET", host: `app.example\x`, want: "host"},
		{method: "GET", host: "x@app.example", want: "host"},
		{method: "GET", host: "app.example, x", want: "host"},
		{method: "GET", host: "app.example ", want: "host"},
		{method: "GET", host: "app.example\x00", want: "host"},
		{method: "GET /hidden", want: "method"},
		{method: "GÉT", want: "method"},
		{method: "", want: "method"},
		{method: "GET", opaque: "/login", want: "target"},
		{method: "GET", query: "a=b%20c+d"},
		{method: "GET", query: "a=b HTTP/1.1", want: "query"},
	} {
		r := &http.Request{Method: c.method, Host: c.host, URL: &url.URL{Opaque: c.opaque, RawQuery: c.query}}
		got := wire.Fault(r)
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q %q %q: got %q, want %q", c.method, c.host, c.opaque, got, c.want)
		}
	}
}

// TestFaultLength: over HTTP/2 the server has not compared the values.
func TestFaultLength(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{"0"}, false},
		{[]string{"12", "12"}, false},
		{[]string{""}, true},
		{[]string{"+2"}, true},
		{[]string{"-2"}, true},
		{[]string{"0x2"}, true},
		{[]string{"1_0"}, true},
		{[]string{" 2"}, true},
		{[]string{"2,2"}, true},
		{[]string{"2", "9"}, true},
		{[]string{"2", "02"}, true},
		{[]string{"9223372036854775808"}, true}, // is not an int64
	} {
		r := &http.Request{ProtoMajor: 2, Method: http.MethodPost, URL: &url.URL{Path: "/"}, Header: http.Header{"Content-Length": c.values}}
		if got := wire.Fault(r); (got != "") != c.want {
			t.Errorf("%q: got %q, want a fault: %v", c.values, got, c.want)
		}
	}
}
