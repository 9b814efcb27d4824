// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestForwarded: whatever origin a client states, it is charged to the budget of its real one,
// and the upstream gets the real one.
//
// In fields {c} is a client, {p} the connecting peer, {t} another trusted proxy, {x} somebody
// else. The client to be charged is in want.
func TestForwarded(t *testing.T) {
	t.Parallel()
	type row struct{ name, peer, fields, want string }
	rows := []row{
		// Untrusted peer: its fields are ignored.
		{"untrusted peer: nothing", "untrusted", "", "{p}"},
		{"untrusted peer: an address", "untrusted", "X-Forwarded-For: {c}", "{p}"},
		{"untrusted peer: a trusted one", "untrusted", "X-Forwarded-For: {t}", "{p}"},
		{"untrusted peer: loopback", "untrusted", "X-Forwarded-For: 127.0.0.1", "{p}"},
		{"untrusted peer: a list", "untrusted", "X-Forwarded-For: {c}, {t}", "{p}"},
		{"untrusted peer: two lines", "untrusted", "X-Forwarded-For: {c}\nX-Forwarded-For: {x}", "{p}"},
		{"untrusted peer: small letters", "untrusted", "x-forwarded-for: {c}", "{p}"},
		{"untrusted peer: underscores", "untrusted", "X_Forwarded_For: {c}", "{p}"},
		{"untrusted peer: one underscore", "untrusted", "X-Forwarded_For: {c}", "{p}"},
		{"untrusted peer: Forwarded", "untrusted", "Forwarded: for={c}", "{p}"},
		{"untrusted peer: X-Real-IP", "untrusted", "X-Real-IP: {c}", "{p}"},
		{"untrusted peer: X_Real_IP", "untrusted", "X_Real_IP: {c}", "{p}"},
		{"untrusted peer: X-Client-IP", "untrusted", "X-Client-IP: {c}", "{p}"},
		{"untrusted peer: True-Client-IP", "untrusted", "True-Client-IP: {c}", "{p}"},
		{"untrusted peer: CF-Connecting-IP", "untrusted", "CF-Connecting-IP: {c}", "{p}"},
		{"untrusted peer: X-Cluster-Client-IP", "untrusted", "X-Cluster-Client-IP: {c}", "{p}"},
		{"untrusted peer: X-Original-Forwarded-For", "untrusted", "X-Original-Forwarded-For: {c}", "{p}"},
		{"untrusted peer: all at once", "untrusted", "X-Forwarded-For: {c}\nForwarded: for={c}\nX-Real-IP: {c}", "{p}"},
		{"untrusted peer: named by Connection", "untrusted", "X-Forwarded-For: {c}\nConnection: X-Forwarded-For", "{p}"},
		{"untrusted peer: another host", "untrusted", "X-Forwarded-Host: evil.example\nX-Forwarded-Proto: https", "{p}"},
		{"untrusted peer: 100 lines", "untrusted", strings.TrimSpace(strings.Repeat("X-Forwarded-For: {c}\n", 100)), "{p}"},

		// Trusted peer: the client is the rightmost address that is not trusted. Package
		// clientip has the spellings of addresses.
		{"nothing", "proxy", "", "{p}"},
		{"an address", "proxy", "X-Forwarded-For: {c}", "{c}"},
		{"one before it", "proxy", "X-Forwarded-For: {x}, {c}", "{c}"},
		{"another proxy behind it", "proxy", "X-Forwarded-For: {c}, {t}", "{c}"},
		{"two lines", "proxy", "X-Forwarded-For: {x}\nX-Forwarded-For: {c}", "{c}"},
		{"an empty line behind", "proxy", "X-Forwarded-For: {c}\nX-Forwarded-For:", "{p}"},
		{"mapped, with a zone", "proxy", "X-Forwarded-For: ::ffff:{c}%eth0", "{c}"},
		{"garbage behind it", "proxy", "X-Forwarded-For: {c}, \xff\xfe", "{p}"},
		{"40 proxies behind it", "proxy", "X-Forwarded-For: {c}" + strings.Repeat(", {t}", 40), "{t}"},
		{"another field", "proxy", "X-Real-IP: {c}", "{p}"},
		{"Forwarded, which is not the one", "proxy", "Forwarded: for={c}", "{p}"},
		{"underscores", "proxy", "X_Forwarded_For: {c}", "{p}"},
		{"underscores behind", "proxy", "X-Forwarded-For: {c}\nX_Forwarded_For: {x}", "{c}"},
		{"named by Connection", "proxy", "X-Forwarded-For: {c}\nConnection: X-Forwarded-For", "{c}"},
		{"named in small letters", "proxy", "X-Forwarded-For: {c}\nConnection: close, x-forwarded-for", "{c}"},
		{"IPv6", "proxy", "X-Forwarded-For: {c6}", "{c6}"},
		{"IPv6 with a zone", "proxy", "X-Forwarded-For: {c6}%eth0", "{c6}"},
		{"IPv6, the same network", "proxy", "X-Forwarded-For: {c6}:abcd:1", "{c6}"},
	}
	g, u := behind(t, `
client_ip: {trusted: 10.0.0.0/8}
rules: [{name: once, match: {path: /once}, by: ip, limits: 1/h sliding-log}]
`)
	for i, r := range rows {
		peer := address()
		if r.peer == "proxy" {
			peer = fmt.Sprintf("10.1.0.%d", i+1)
		}
		whole := strings.NewReplacer("{p}", peer, "{c}", address(), "{x}", address(), "{t}", fmt.Sprintf("10.2.0.%d", i+1),
			"{c6}:abcd:1", fmt.Sprintf("2001:db8:6:%x::abcd:1", i+1), "{c6}", fmt.Sprintf("2001:db8:6:%x::1", i+1))
		sent := strings.Split(whole.Replace(r.fields), "\n")
		if r.fields == "" {
			sent = nil
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			row, from := number("forwarded", i), g.client(peer)
			if got := from.get(t, row, "/", sent...); got.status != 200 {
				t.Fatalf("got %d %s", got.status, got.body)
			}
			if err := reported(u.of(row), sent, peer, r.peer == "proxy"); err != nil {
				t.Error(err)
			}
			// The real client spends the budget first.
			want := whole.Replace(r.want)
			if got := g.client(want).get(t, row, "/once"); got.status != 200 {
				t.Fatalf("%s: got %d at first", want, got.status)
			}
			if got := from.get(t, row, "/once", sent...); got.status != 429 {
				t.Errorf("got %d, want 429: the budget is not that of %s", got.status, want)
			}
		})
	}
}

// reported returns the faults in the origin that the upstream received.
func reported(got []request, sent []string, peer string, trusted bool) error {
	if len(got) != 1 || got[0].fault != "" {
		return fmt.Errorf("the upstream got %+v", got)
	}
	r := got[0]
	want := []string{peer}
	if trusted {
		want = nil
		for _, line := range sent {
			if name, value, _ := strings.Cut(line, ":"); name == "X-Forwarded-For" {
				want = append(want, strings.Trim(value, " \t"))
			}
		}
		want = []string{strings.Join(append(want, peer), ", ")}
	}
	var faults []error
	if got := r.values("X-Forwarded-For"); !slices.Equal(got, want) {
		faults = append(faults, fmt.Errorf("X-Forwarded-For is %q, want %q", got, want))
	}
	if got := r.values("X-Forwarded-Host"); !slices.Equal(got, []string{"app.example"}) {
		faults = append(faults, fmt.Errorf("X-Forwarded-Host is %q", got))
	}
	if got := r.values("X-Forwarded-Proto"); !slices.Equal(got, []string{"http"}) {
		faults = append(faults, fmt.Errorf("X-Forwarded-Proto is %q", got))
	}
	if trusted { // a trusted proxy may state more, but consistently
		return errors.Join(append(faults, only(r, "Forwarded"))...)
	}
	return errors.Join(append(faults, only(r, "Forwarded", "X-Real-IP", "X-Client-IP", "True-Client-IP",
		"CF-Connecting-IP", "X-Cluster-Client-IP", "X-Original-Forwarded-For", "X-Forwarded-Port"))...)
}

// only returns which of these fields are present.
func only(r request, none ...string) error {
	var faults []error
	for _, name := range none {
		if got := r.values(name); got != nil {
			faults = append(faults, fmt.Errorf("%s is %q", name, got))
		}
	}
	return errors.Join(faults...)
}
