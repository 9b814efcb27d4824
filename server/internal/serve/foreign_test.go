// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestAdminForeign: a client behind a proxy on this machine, or another site's page in a
// browser here, does not count as a caller on this machine: it needs the token, and without
// one it is refused.
func TestAdminForeign(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{name: a, by: ip, limits: 5/min}]\n"
	servers := map[string]*servetest.Gateway{
		"open":  servetest.Start(t, fmt.Sprintf("upstream: %q\n", servetest.Named(t, "up"))+rules, servetest.Stopped),
		"token": servetest.Start(t, fmt.Sprintf("admin: {address: 127.0.0.1:0, token_file: %q}\nupstream: %q\n", tokenFile(t, goodToken), servetest.Named(t, "up"))+rules, servetest.Stopped),
	}
	paths := map[string][]string{
		"open":  {"/policy", "/v1/key?ip=192.0.2.7", "/v1/overview", "/v1/top", "/v1/live"},
		"token": {"/v1/overview", "/v1/top", "/v1/live"},
	}
	refused := map[string]int{"open": http.StatusForbidden, "token": http.StatusUnauthorized}
	const link = "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: "
	for _, c := range []struct {
		name, fields string
		answered     bool
	}{
		{"curl", "", true},
		{"the page", own + "\n", true},
		{"an address that is typed", "Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document\n", true},
		{"a link", link + "document\n", true},
		{"a frame", link + "iframe\n", false},
		{"a page of another site", "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: empty\n", false},
		{"a page of another port", "Sec-Fetch-Site: same-site\nSec-Fetch-Mode: cors\nSec-Fetch-Dest: empty\nOrigin: http://127.0.0.1:1\n", false},
		{"a script of another site", "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: script\n", false},
		{"an old browser's page of another site", "Origin: https://other.example\n", false},
		{"a proxy here", "X-Forwarded-For: 192.0.2.7\n", false},
		{"a proxy here by the standard's field", "Forwarded: for=192.0.2.7\n", false},
		{"a proxy here that says where from", "X-Real-IP: 192.0.2.7\n", false},
		{"a proxy here that names itself", "Via: 1.1 proxy\n", false},
	} {
		for server, list := range paths {
			for _, path := range list {
				want := http.StatusOK
				if !c.answered {
					want = refused[server]
				}
				if c.answered && path == "/v1/live" {
					continue // the connection stays usable, and is asked elsewhere
				}
				got := asked(t, servers[server].Admin, "GET "+path+" HTTP/1.1\nHost: localhost\n"+c.fields)
				if got.Status != want {
					t.Errorf("%s, %s, %s: got %d, want %d: %s", c.name, server, path, got.Status, want, got.Body)
				}
			}
		}
	}
	through := asked(t, servers["token"].Admin, "GET /v1/overview HTTP/1.1\nHost: localhost\nX-Forwarded-For: 192.0.2.7\nAuthorization: Bearer "+goodToken+"\n")
	if through.Status != http.StatusOK {
		t.Errorf("with the token through a proxy: got %d %s", through.Status, through.Body)
	}
}

// TestLiveHead: a HEAD request for the events is answered at once, and takes no place.
func TestLiveHead(t *testing.T) {
	t.Parallel()
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, by: ip, limits: 5/min}]\n", servetest.Named(t, "up")), servetest.Stopped)
	for range 70 {
		ctx, cancel := context.WithTimeout(t.Context(), testkit.Ceiling)
		defer cancel()
		req := servetest.Request(ctx, t, http.MethodHead, s.Admin+"/v1/live", nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
			t.Fatalf("got %d %v, %v", resp.StatusCode, resp.Header, err)
		}
	}
	await(t, events(t, s), "retry:")
}
