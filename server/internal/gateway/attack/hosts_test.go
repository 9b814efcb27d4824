// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
)

// TestHosts: every spelling of a host that reaches the upstream's host is charged. The budgets
// of all hosts with a rule are spent.
func TestHosts(t *testing.T) {
	t.Parallel()
	ruled := []string{"app.example", "xn--bcher-kva.example", "[2001:db8::1]"}
	type row struct {
		name, host string
		http2      bool
		want       int
	}
	rows := []row{
		{"itself", "app.example", false, charged},
		{"capitals", "APP.Example", false, charged},
		{"a port", "app.example:8080", false, charged},
		{"an empty port", "app.example:", false, charged},
		{"a dot", "app.example.", false, charged},
		{"dots", "app.example..", false, charged},
		{"a dot and a port", "app.example.:80", false, charged},
		{"two ports", "app.example:80:80", false, refused},
		{"a blank behind", "app.example ", false, charged},
		{"a tab before", "\tapp.example", false, charged},
		{"a blank within", "app.example x", false, refused},
		{"a slash", "app.example/", false, refused},
		{"a backslash", `app.example\x`, false, refused},
		{"a user", "x@app.example", false, refused},
		{"a comma", "app.example, x", false, refused},
		{"a wide letter", "\uff41pp.example", false, refused},
		{"a wide dot", "app\u3002example", false, refused},
		{"an escape", "app%2eexample", false, refused},
		{"another", "other.example", false, passes},
		{"none", "", false, passes},
		{"of two languages", "b\u00fccher.example", false, refused},
		{"of two languages, as sent", "xn--bcher-kva.example", false, charged},
		{"of two languages, in capitals", "XN--BCHER-KVA.example", false, charged},

		{"an address", "[2001:db8::1]", false, charged},
		{"an address, all of it", "[2001:0DB8:0:0:0:0:0:1]:80", false, charged},
		{"an address with a zone", "[2001:db8::1%25x]", false, refused},

		{"HTTP/2: itself", "app.example", true, charged},
		{"HTTP/2: capitals", "APP.Example:80", true, charged},
		{"HTTP/2: a dot", "app.example.", true, charged},
		{"HTTP/2: a slash", "app.example/", true, refused},
		{"HTTP/2: a backslash", `app.example\x`, true, refused},
		{"HTTP/2: a user", "x@app.example", true, 0},
		{"HTTP/2: a comma", "app.example, x", true, refused},
		{"HTTP/2: a blank behind", "app.example ", true, refused},
		{"HTTP/2: a wide letter", "\uff41pp.example", true, refused},
		{"HTTP/2: a wide dot", "app\u3002example", true, refused},
		{"HTTP/2: of two languages", "b\u00fccher.example", true, refused},
		{"HTTP/2: of two languages, in capitals", "B\u00dcCHER.example", true, refused},
		{"HTTP/2: of two languages, as sent", "xn--bcher-kva.example", true, charged},
		{"HTTP/2: no UTF-8", "app.example\xff", true, refused},
		{"HTTP/2: an address with a zone", "[2001:db8::1%x]", true, refused},
		{"HTTP/2: a zone", "app.example%eth0", true, refused},
	}
	g, u := behind(t, `
rules:
  - {name: app, match: {host: app.example}, by: ip, limits: 1/h sliding-log}
  - {name: address, match: {host: "[2001:db8::1]"}, by: ip, limits: 1/h sliding-log}
  - {name: books, match: {host: xn--bcher-kva.example}, by: ip, limits: 1/h sliding-log}
`)
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			c, row := g.client(address()), number("host", i)
			for _, host := range ruled {
				if got := c.send(t, "GET / HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); len(got) != 1 || got[0].status != passes {
					t.Fatalf("%s: got %v at first", host, got)
				}
			}
			var status int
			if r.http2 {
				h := c.http2(t)
				status = h.status(t, h.open(endHeaders|endStream, block(":method", "GET", ":scheme", "http", ":authority", r.host, ":path", "/", "x-row", row)))
			} else {
				replies := c.send(t, "GET / HTTP/1.1\r\nHost: "+r.host+"\r\nX-Row: "+row+"\r\nConnection: close\r\n\r\n")
				status = replies[0].status
			}
			if status != r.want {
				t.Errorf("got %d, want %d", status, r.want)
			}
			for _, r := range u.of(row) {
				host := wire.Host(strings.Join(r.values("Host"), ","))
				if slices.Contains(ruled, host) {
					t.Errorf("the upstream got it for %s, and nothing was charged", host)
				}
			}
		})
	}
}
