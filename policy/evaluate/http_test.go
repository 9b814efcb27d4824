// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// TestRequestTargets: a rule applies however a request's target and method are written, if
// the request that is passed on is one that the rule matches.
func TestRequestTargets(t *testing.T) {
	p := compile(t,
		rule("all", policy.Match{Paths: []string{"/"}}),
		rule("root", policy.Match{Paths: []string{"/{$}"}}),
		rule("login", policy.Match{Methods: []string{"POST"}, Paths: []string{"/login"}}),
		rule("page", policy.Match{Methods: []string{"GET"}, Paths: []string{"/login"}}),
	)
	tests := []struct {
		name, line string
		want       []string
	}{
		{"a path", "POST /login", []string{"all", "login"}},
		{"a URL", "POST http://other/login", []string{"all", "login"}},
		{"a URL without a path", "GET http://other", []string{"all", "root"}},
		{"a URL with a query only", "GET http://other?q", []string{"all", "root"}},
		{"a server to connect to", "CONNECT other:443", []string{"all", "root"}},
		{"an asterisk", "GET *", []string{"all"}},
		{"small letters", "post /login", []string{"all", "login"}},
		{"letters of both kinds", "PosT /login", []string{"all", "login"}},
		{"HEAD in small letters", "head /login", []string{"all", "page"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(test.line + " HTTP/1.1\r\nHost: a\r\n\r\n")))
			if err != nil {
				t.Fatal(err)
			}
			var h wire.Attributes
			h.Reset(r, netip.Addr{}, nil)
			if got := matched(p, &h); !slices.Equal(got, test.want) {
				t.Errorf("%q matched %v, want %v", test.line, got, test.want)
			}
		})
	}
}

// TestCookiesThatOthersRead: cookies that net/http ignores, but applications read, count.
func TestCookiesThatOthersRead(t *testing.T) {
	r := one("session", by(policy.Cookie("sid")), "9/min fixed-window")
	r.Levels[0].Missing = policy.Skip
	const (
		twice    = "cookie sid is sent more than once"
		bytes    = "cookie sid has a blank, a comma or bytes that no cookie may have"
		spelling = "cookie sid is sent under a name that some servers read as another"
	)
	for _, c := range []struct {
		cookie  string
		refused string // why, empty: it is allowed
	}{
		{"sid=abc", ""},
		{"other=abc", ""},
		{"sid=r1; sid=abc", twice},
		{`sid=r1; sid="\141bc"`, bytes},
		{`sid="\141bc"`, bytes},
		{`sid=r1; sid=abc\`, bytes},
		{"sid=r1; sid=ab\xe9", bytes},
		{"sid=r1 sid=abc", bytes},
		{"sid=r1,sid=abc", bytes},
		{"sid=r1; other=x sid=abc", spelling},
		{"sid=r1; sid\u00a0=abc", spelling},
		{"sid=r1; SID=abc", spelling},
	} {
		t.Run(c.cookie, func(t *testing.T) {
			w := newWorld(t, r)
			req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{"Cookie": {c.cookie}}}
			var h wire.Attributes
			h.Reset(req, netip.Addr{}, nil)
			v := w.decide(&h)
			if want := c.refused == ""; v.Allowed != want || (v.Refused == nil) != want {
				t.Fatalf("allowed %v, refused %v; want %q", v.Allowed, v.Refused, c.refused)
			}
			if v.Refused != nil && !strings.Contains(v.Refused.Error(), c.refused) {
				t.Errorf("refused as %q, want %q", v.Refused, c.refused)
			}
		})
	}
}

// TestCookieOfOneSession: a session has one budget, however many blanks and quotes surround
// its cookie.
func TestCookieOfOneSession(t *testing.T) {
	w := newWorld(t, one("session", by(policy.Cookie("sid")), "3/h fixed-window"))
	allowed := 0
	for i := range 12 {
		value := strings.Repeat(" ", i/2) + []string{"v", `"v"`}[i%2] + strings.Repeat("\t", i)
		req := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Header: http.Header{"Cookie": {"sid=" + value}}}
		var h wire.Attributes
		h.Reset(req, netip.Addr{}, nil)
		if w.decide(&h).Allowed {
			allowed++
		}
	}
	if allowed != 3 {
		t.Errorf("%d of 12 spellings of one session were allowed; want 3", allowed)
	}
}

// A rule that matches a query parameter applies where servers do not agree on its value,
// with any value or none in the rule.
func TestQueriesInEveryReading(t *testing.T) {
	field := func(f policy.Field) policy.Rule {
		r := one("r", nil, "1/min")
		r.Match.Queries = []policy.Field{f}
		return r
	}
	rules := []policy.Rule{
		field(policy.Field{Name: "q", Values: []string{"1", "2"}}), field(policy.Field{Name: "q"}), field(policy.Field{Name: "q", Absent: true}),
		one("all", nil, "1/min"),
	}
	for i := range rules {
		rules[i].Name = "abcd"[i : i+1]
	}
	p := compile(t, rules...)
	for query, want := range map[string]string{
		"":            "cd",
		"q=1":         "abd",
		"q=3":         "bd",
		"q=":          "d",
		"r=%&q=1":     "abd",
		"r;s#t":       "cd",
		"q=%":         "abcd",
		"q=3;r":       "abcd",
		"r;q=3":       "abcd",
		"r#&q=3":      "abcd",
		"q=3&r;q=1":   "abcd",
		"q=3&q=%zz&r": "abcd",
		"Q=3":         "abcd",
		"q=3&q[]=1":   "abcd",
	} {
		r := httptest.NewRequest(http.MethodGet, "/?"+query, nil)
		var h wire.Attributes
		h.Reset(r, netip.Addr{}, nil)
		var m policy.Matches
		p.Match(&h, &m)
		got := ""
		for i := range m.Len() {
			got += p.Rules()[m.At(i)].Name
		}
		if got != want {
			t.Errorf("%q: matches %q, want %q", query, got, want)
		}
	}
}
