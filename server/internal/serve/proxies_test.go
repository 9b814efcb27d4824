// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestUntrustedProxy: an untrusted proxy is logged once, with the effect and the remedy.
func TestUntrustedProxy(t *testing.T) {
	t.Parallel()
	const byIP = "rules: [{name: api, by: ip, limits: 1000/min}]\n"
	for _, c := range []struct {
		name, yaml, field string
		want              string // empty: nothing is logged
	}{
		{"forgotten", byIP, "X-Forwarded-For", "set client_ip: {trusted: [127.0.0.1/32]}, or --trust 127.0.0.1/32;"},
		{"of RFC 7239", byIP, "Forwarded", "set client_ip: {trusted: [127.0.0.1/32], header: Forwarded};"},
		{"beside another", "client_ip: {trusted: 10.0.0.0/8}\n" + byIP, "X-Forwarded-For", "trusted: [127.0.0.1/32]"},
		{"with a field of its own", "client_ip: {trusted: 10.0.0.0/8, header: x-real-ip}\n" + byIP, "X-Real-Ip", "header: X-Real-Ip}"},
		{"not that field", "client_ip: {trusted: 10.0.0.0/8, header: x-real-ip}\n" + byIP, "X-Forwarded-For", ""},
		{"trusted", "client_ip: {trusted: 127.0.0.1}\n" + byIP, "X-Forwarded-For", ""},
		{"said to be none", "client_ip: {trusted: []}\n" + byIP, "X-Forwarded-For", ""},
		{"no such field", byIP, "X-Other", ""},
		{"no rule by ip", "rules: [{name: api, by: header.X-Key, missing: share, limits: 1000/min}]\n", "X-Forwarded-For", ""},
		{"a level by networks", "rules: [{name: tree, levels: [{name: all, limits: 9000/min}, {name: one, by: [ip/24/48, host], limits: 1000/min}]}]\n", "X-Forwarded-For", "rule=tree"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := servetest.Start(t, c.yaml)
			for i := range 20 {
				s.Want(t, http.StatusOK, "/?userId=u1", c.field, fmt.Sprintf("for=192.0.2.%d", i))
			}
			logs := s.Logs.String()
			lines := strings.Count(logs, "all clients behind a peer share one budget: it sends the field of a proxy, and is not trusted\" peer=127.0.0.1 field="+c.field+" ")
			if c.want == "" && lines != 0 || c.want != "" && (lines != 1 || !strings.Contains(logs, c.want)) {
				t.Errorf("got %d lines, want %q in one, of\n%s", lines, c.want, logs)
			}
			if strings.Contains(logs, "192.0.2.") {
				t.Errorf("the log holds what the client wrote:\n%s", logs)
			}
		})
	}
}

// TestUntrustedProxyReload: a reload without a change of trusted proxies does not log again,
// and one with wrong ones does.
func TestUntrustedProxyReload(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{name: api, by: ip, limits: %d/min}]\n"
	s := servetest.Start(t, fmt.Sprintf(rules, 1000))
	ask := func(want int) {
		t.Helper()
		s.Get(t, "/?userId=u1", "X-Forwarded-For", "192.0.2.1")
		if got := strings.Count(s.Logs.String(), "is not trusted"); got != want {
			t.Errorf("got %d lines, want %d, of\n%s", got, want, s.Logs)
		}
	}
	ask(1)
	s.ChangeTo(t, fmt.Sprintf(rules, 1001))
	ask(1)
	s.Override(t, "api", "ip", "192.0.2.1", "5/min")
	ask(1)
	s.ChangeTo(t, "client_ip: {trusted: 10.0.0.0/8}\n"+fmt.Sprintf(rules, 1001))
	ask(2)
}
