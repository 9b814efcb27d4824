// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"net/http"
	"strings"
	"testing"
)

// Requests by an address, by localhost or by a listed name are answered, in any
// spelling. A request by another name may come from a web page.
func TestMisdirected(t *testing.T) {
	hosts := []string{"sluice", "sluice.internal"}
	for host, want := range map[string]bool{ // whether it is answered
		"127.0.0.1": true, "127.0.0.1:9090": true, "192.0.2.7": true, "10.0.0.1:": true,
		"[::1]": true, "[::1]:9090": true, "::1": true, "2001:db8::1": true, "[::ffff:192.0.2.7]:1": true,
		"[fe80::1%eth0]": true, "[fe80::1%25eth0]:9090": true,
		"localhost": true, "LOCALHOST:9090": true, "localhost.": true, "localhost:": true,
		"sluice": true, "Sluice:9090": true, "sluice.internal.": true, "SLUICE.Internal.:80": true,
		"": true, // HTTP/1.0

		"rebound.example": false, "rebound.example:9090": false, "rebound.example.": false,
		"localhost.rebound.example": false, "sluice.rebound.example": false, "x.sluice": false, "sluice-internal": false,
		"127.0.0.1.rebound.example": false, "127.0.0.1.nip.io:9090": false,
		"127.1": false, "0177.0.0.1": false, "2130706433": false, "0x7f.0.0.1": false, "127.0.0.1.": false, "127.0.0.01": false,
		"user@localhost": false, "user:pass@localhost:80": false, "localhost@rebound.example": false, "localhost:80@rebound.example": false,
		"localhost:http": false, "localhost:99999": false, "localhost:1:2": false, "localhost:-1": false,
		":9090": false, "[": false, "[]": false, "[::1": true, "[localhost]": true, "[rebound.example]": false, "[::1]x": false, "[::1].rebound.example": false,
		"[fe80::1%rebound.example]": true, // a zone, which no browser sends
		"localhost/":                false, "localhost,rebound.example": false,
	} {
		err := misdirected(&http.Request{Host: host}, hosts)
		if (err == nil) != want {
			t.Errorf("%q: got %v, want answered %v", host, err, want)
		}
		if err != nil && !strings.Contains(err.Error(), "admin.hosts") {
			t.Errorf("%q: got %q", host, err)
		}
	}
}
