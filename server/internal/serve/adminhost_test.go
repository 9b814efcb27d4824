// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// asked sends the head of a request verbatim, and returns the answer.
func asked(t *testing.T, url, head string) servetest.Answer {
	t.Helper()
	conn := servetest.Dial(t, url, strings.ReplaceAll(head, "\n", "\r\n")+"Connection: close\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return servetest.Answer{Status: resp.StatusCode, Header: resp.Header, Body: string(body)}
}

// TestAdminHost: a web page under a host name that was pointed at the admin address gets no
// answer; probes and scrapes do, by address or by a name that the operator has listed.
func TestAdminHost(t *testing.T) {
	t.Parallel()
	tokens := testkit.TempFile(t, "token", "0123456789abcdef0123456789abcdef\n")
	const rules = "\nrules: [{name: a, by: ip, limits: 5/min}]\n"
	servers := map[string]*servetest.Gateway{
		"no name":         servetest.Start(t, fmt.Sprintf("upstream: %q", servetest.Named(t, "up"))+rules),
		"names":           servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, hosts: [Sluice.Internal, sluice]}\nupstream: %q", servetest.Named(t, "up"))+rules),
		"names and token": servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, hosts: sluice, token_file: %q}\nupstream: %q", tokens, servetest.Named(t, "up"))+rules),
	}
	for _, c := range []struct {
		server, head string
		want         int
	}{
		{"no name", "GET /metrics HTTP/1.1\nHost: rebound.example:9090\n", 421},
		{"no name", "GET /readyz HTTP/1.1\nHost: rebound.example\n", 421},
		{"no name", "GET /healthz HTTP/1.1\nHost: rebound.example\n", 421},
		{"no name", "GET / HTTP/1.1\nHost: rebound.example\n", 421},
		{"no name", "GET /none HTTP/1.1\nHost: rebound.example\n", 421},
		{"no name", "GET //metrics HTTP/1.1\nHost: rebound.example\n", 421},
		{"no name", "GET /v1/top HTTP/1.1\nHost: rebound.example\n", 403},
		{"no name", "GET /metrics HTTP/1.1\nHost: 10.1.2.3:9090\n", 200},
		{"no name", "GET /metrics HTTP/1.1\nHost: [2001:db8::1]\n", 200},
		{"no name", "GET /metrics HTTP/1.1\nHost: localhost:1\n", 200},
		{"no name", "GET /readyz HTTP/1.0\n", 200}, // as HAProxy and old load balancers ask
		{"no name", "GET http://127.0.0.1/metrics HTTP/1.1\nHost: rebound.example\n", 200},
		{"no name", "GET http://rebound.example/metrics HTTP/1.1\nHost: 127.0.0.1\n", 421},
		{"names", "GET /metrics HTTP/1.1\nHost: sluice.internal:9090\n", 200},
		{"names", "GET /metrics HTTP/1.1\nHost: SLUICE\n", 200},
		{"names", "GET /metrics HTTP/1.1\nHost: x.sluice\n", 421},
		{"names", "GET /v1/top HTTP/1.1\nHost: sluice\n", 403}, // this machine only, without a token
		{"names and token", "GET /v1/session HTTP/1.1\nHost: sluice\n", 200},
		{"names and token", "GET /v1/top HTTP/1.1\nHost: sluice\n", 401}, // it may not be meant for this machine
		{"names and token", "GET /v1/top HTTP/1.1\nHost: rebound.example\n", 421},
		{"names and token", "GET /v1/session HTTP/1.1\nHost: 10.0.0.1\n", 200},
		{"names and token", "GET /v1/top HTTP/1.1\nHost: 10.0.0.1\n", 401},
	} {
		got := asked(t, servers[c.server].Admin, c.head)
		if got.Status != c.want {
			t.Errorf("%s: %q: got %d %s, want %d", c.server, c.head, got.Status, got.Body, c.want)
		}
		if c.want == http.StatusMisdirectedRequest && (!strings.Contains(got.Body, "admin.hosts") || !strings.Contains(got.Body, "--admin-host")) {
			t.Errorf("%s: %q: got %q", c.server, c.head, got.Body)
		}
	}
}
