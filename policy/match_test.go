// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/policy"
)

// matched returns the names of the rules that match.
func matched(p *policy.Policy, a policy.Attributes) []string {
	var m policy.Matches
	p.Match(a, &m)
	names := []string{}
	for i := range m.Len() {
		names = append(names, p.Rules()[m.At(i)].Name)
	}
	return names
}

func rule(name string, m policy.Match) policy.Rule {
	r := one(name, nil, "1/min")
	r.Match = m
	return r
}

func TestMatch(t *testing.T) {
	nets := func(texts ...string) (ps []netip.Prefix) {
		for _, text := range texts {
			ps = append(ps, netip.MustParsePrefix(text))
		}
		return ps
	}
	p := compile(t,
		rule("every", policy.Match{}),
		rule("get", policy.Match{Methods: []string{"GET"}, Paths: []string{"/m"}}),
		rule("post", policy.Match{Methods: []string{"POST"}, Paths: []string{"/m"}}),
		rule("host", policy.Match{Hosts: []string{"API.example.com."}}),
		rule("literal", policy.Match{Hosts: []string{"[2001:DB8:0::1]"}}),
		rule("below", policy.Match{Hosts: []string{"*.example.com", "*.example.org"}, Paths: []string{"/"}}),
		rule("user", policy.Match{Paths: []string{"/users/{id}", "/people/{id}", "/users/me"}}),
		rule("tree", policy.Match{Paths: []string{"/static/"}}),
		rule("exact", policy.Match{Paths: []string{"/static/{$}"}}),
		rule("rest", policy.Match{Paths: []string{"/files/{rest...}"}}),
		rule("header", policy.Match{Headers: []policy.Field{{Name: "x-plan", Values: []string{"free", "trial"}}}}),
		rule("present", policy.Match{Headers: []policy.Field{{Name: "X-Debug"}}}),
		rule("anonymous", policy.Match{Headers: []policy.Field{{Name: "Authorization", Absent: true}}, Paths: []string{"/auth"}}),
		rule("query", policy.Match{Queries: []policy.Field{{Name: "format", Values: []string{"csv"}}}}),
		rule("network", policy.Match{Networks: nets("10.0.0.0/8", "2001:db8::/32")}),
		rule("except", policy.Match{Paths: []string{"/shop/", "/shop"}, Except: []string{"/shop/static/", "/shop/{x}/health", "/shop/{$}"}}),
		rule("both", policy.Match{Networks: nets("10.1.0.0/16"), Headers: []policy.Field{{Name: "X-Plan", Values: []string{"free"}}}}),
	)
	tests := []struct {
		name    string
		request policy.Request
		want    string
	}{
		{"nothing", policy.Request{Method: "GET", Path: "/x"}, ""},
		{"method", policy.Request{Method: "POST", Path: "/m"}, "post"},
		{"GET includes HEAD", policy.Request{Method: "HEAD", Path: "/m"}, "get"},
		{"methods are exact", policy.Request{Method: "post", Path: "/m"}, ""},
		{"host", policy.Request{Host: "api.example.com", Path: "/x"}, "host below"},
		{"host of IPv6", policy.Request{Host: "[2001:db8::1]", Path: "/x"}, "literal"},
		{"below a host", policy.Request{Host: "a.b.example.org", Path: "/x"}, "below"},
		{"below is not itself", policy.Request{Host: "example.com", Path: "/x"}, ""},
		{"wildcard", policy.Request{Path: "/users/7"}, "user"},
		{"two paths of a rule match once", policy.Request{Path: "/users/me"}, "user"},
		{"a wildcard is one segment", policy.Request{Path: "/users/7/x"}, ""},
		{"a wildcard is not empty", policy.Request{Path: "/users/"}, ""},
		{"an escaped slash is no slash", policy.Request{Path: "/users/7%2Fx"}, "user"},
		{"subtree", policy.Request{Path: "/static/a/b"}, "tree"},
		{"subtree and exact", policy.Request{Path: "/static/"}, "tree exact"},
		{"below only", policy.Request{Path: "/static"}, ""},
		{"rest", policy.Request{Path: "/files/a/b"}, "rest"},
		{"doubled slashes", policy.Request{Path: "//users///7"}, "user"},
		{"dot segments", policy.Request{Path: "/x/../users/./7"}, "user"},
		{"escaped dot segments", policy.Request{Path: "/x/%2e%2E/users/7"}, "user"},
		{"above the root", policy.Request{Path: "/../../users/7"}, "user"},
		{"escaped literal", policy.Request{Path: "/%75sers/7"}, "user"},
		{"an escaped slash may be one", policy.Request{Path: "/%2Fusers/7"}, "user"},
		{"dot segments behind an escaped slash", policy.Request{Path: "/x/..%2fusers/7"}, "user"},
		{"dot segments between escaped slashes", policy.Request{Path: "/x%2F..%2fusers%2F7"}, "user"},
		{"a backslash may be a slash", policy.Request{Path: `/x/..\users/7`}, "user"},
		{"an escaped backslash may be one", policy.Request{Path: "/x%5c..%5Cusers/7"}, "user"},
		{"a slash is one and a backslash none", policy.Request{Path: "/x%2F..%2Fstatic/a%5C..%5C..%5C.."}, "tree"},
		{"not a path", policy.Request{Method: "OPTIONS", Path: "*"}, ""},
		{"header", policy.Request{Path: "/x", Headers: map[string][]string{"X-Plan": {"trial"}}}, "header"},
		{"header, second value", policy.Request{Path: "/x", Headers: map[string][]string{"X-Plan": {"pro", "free"}}}, "header"},
		{"header, both values", policy.Request{Path: "/x", Headers: map[string][]string{"X-Plan": {"trial", "free"}}}, "header"},
		{"header present", policy.Request{Path: "/x", Headers: map[string][]string{"X-Debug": {"0"}}}, "present"},
		{"header present but empty", policy.Request{Path: "/x", Headers: map[string][]string{"X-Debug": {""}}}, ""},
		{"header absent", policy.Request{Path: "/auth"}, "anonymous"},
		{"header not absent", policy.Request{Path: "/auth", Headers: map[string][]string{"Authorization": {"x"}}}, ""},
		{"query", policy.Request{Path: "/x", Queries: map[string][]string{"format": {"csv"}}}, "query"},
		{"network", policy.Request{Path: "/x", Client: netip.MustParseAddr("10.2.3.4")}, "network"},
		{"network of IPv6", policy.Request{Path: "/x", Client: netip.MustParseAddr("2001:db8::1")}, "network"},
		{"network mapped", policy.Request{Path: "/x", Client: netip.MustParseAddr("::ffff:10.2.3.4")}, "network"},
		{"network with a zone", policy.Request{Path: "/x", Client: netip.MustParseAddr("2001:db8::1%eth0")}, "network"},
		{"except: meant", policy.Request{Path: "/shop/cart"}, "except"},
		{"except: meant without a slash", policy.Request{Path: "/shop"}, "except"},
		{"except: a subtree", policy.Request{Path: "/shop/static/x"}, ""},
		{"except: a subtree around the corner", policy.Request{Path: "/shop/x/../static//"}, ""},
		{"except: a subtree that is left by an escaped slash", policy.Request{Path: "/shop/static/..%2Fcart"}, "except"},
		{"except: a subtree however it is read", policy.Request{Path: "/shop/static/a%2Fb"}, ""},
		{"except: beside the subtree", policy.Request{Path: "/shop/static"}, "except"},
		{"except: a wildcard", policy.Request{Path: "/shop/eu/health"}, ""},
		{"except: exactly", policy.Request{Path: "/shop/"}, ""},
		{"network and header", policy.Request{Path: "/x", Client: netip.MustParseAddr("10.1.3.4"), Headers: map[string][]string{"X-Plan": {"free"}}}, "header network both"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, want := matched(p, test.request.Attributes()), append([]string{"every"}, strings.Fields(test.want)...)
			if !slices.Equal(got, want) {
				t.Errorf("matched %v, want %v", got, want)
			}
		})
	}
}

// The index must find the rules that a walk through all rules finds, and a path pattern
// must match the same paths as in net/http.ServeMux.
func FuzzMatchAsServeMux(f *testing.F) {
	for _, path := range []string{"/", "/a", "/a/b/c", "/a/%2e%2e/b", "//a//b/", "/a/b%2Fc", "/a/{$}", "/b/x/y/", "/a%", "*", "/c/d/../e"} {
		f.Add(path, uint8(3))
	}
	patterns := []string{
		"/", "/{$}", "/a", "/a/", "/a/{$}", "/a/{x}", "/a/{x}/c", "/a/b/{rest...}", "/{x}/b", "/{x}/{y}", "/{x}/{y}/",
		"/b/{x}/{$}", "/b%2Fc", "/a/{x}/{y}/{z...}", "/%2525/x",
	}
	var rules []policy.Rule
	muxes := make([]*http.ServeMux, len(patterns))
	for i, p := range patterns {
		rules = append(rules, rule(fmt.Sprint(i), policy.Match{Paths: []string{p}}))
		muxes[i] = http.NewServeMux()
		muxes[i].HandleFunc(p, func(http.ResponseWriter, *http.Request) {})
	}
	compiled, err := policy.Compile(rules)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, path string, at uint8) {
		req, err := http.NewRequest(http.MethodGet, "http://h"+path, nil)
		if err != nil || !strings.HasPrefix(req.URL.EscapedPath(), "/") {
			return
		}
		var h wire.Attributes
		h.Reset(req, netip.Addr{}, nil)
		got := matched(compiled, &h)
		i := int(at) % len(patterns)
		// ServeMux answers an unclean path by a redirect, and one that lacks its
		// final slash, too; it leaves escaped dots alone.
		rec := httptest.NewRecorder()
		muxes[i].ServeHTTP(rec, req)
		lower := strings.ToLower(path)
		if rec.Code/100 == 3 || strings.Contains(lower, "%2e") || strings.Contains(path, "//") || strings.Contains(path, "/.") {
			return
		}
		open := strings.Contains(lower, "%2f") || strings.Contains(lower, "%5c") || strings.Contains(path, `\`)
		if got, want := slices.Contains(got, fmt.Sprint(i)), rec.Code == http.StatusOK; got != want && (want || !open) {
			t.Errorf("path %q, pattern %q: matched %v, ServeMux %v", path, patterns[i], got, want)
		}
	})
}

// TestMatchesAll: it reports the matches that exclude no request, and no others.
func TestMatchesAll(t *testing.T) {
	networks := func(texts ...string) (m policy.Match) {
		for _, text := range texts {
			m.Networks = append(m.Networks, netip.MustParsePrefix(text))
		}
		return m
	}
	for _, c := range []struct {
		name string
		m    policy.Match
		want bool
	}{
		{"nothing", policy.Match{}, true},
		{"every path", policy.Match{Paths: []string{"/"}}, true},
		{"every path, by a wildcard", policy.Match{Paths: []string{"/a", "/{rest...}"}}, true},
		{"the root", policy.Match{Paths: []string{"/{$}"}}, false},
		{"one segment", policy.Match{Paths: []string{"/{a}"}}, false},
		{"below a segment", policy.Match{Paths: []string{"/{a}/"}}, false},
		{"but one path", policy.Match{Paths: []string{"/"}, Except: []string{"/health"}}, false},
		{"methods", policy.Match{Methods: []string{"GET", "POST"}}, false},
		{"hosts", policy.Match{Hosts: []string{"*.example.com"}}, false},
		{"any header", policy.Match{Headers: []policy.Field{{Name: "X"}}}, false},
		{"no query", policy.Match{Queries: []policy.Field{{Name: "q", Absent: true}}}, false},
		{"all networks", networks("::/0", "0.0.0.0/0"), true},
		{"all networks and paths", policy.Match{Paths: []string{"/"}, Networks: networks("::/0", "0.0.0.0/0").Networks}, true},
		{"IPv4", networks("0.0.0.0/0"), false},
		{"IPv6", networks("::/0"), false},
		{"in parts", networks("8000::/1", "128.0.0.0/1", "64.0.0.0/2", "::/2", "4000::/2", "0.0.0.0/2", "10.0.0.0/8"), true},
		{"all parts but one", networks("8000::/1", "128.0.0.0/1", "64.0.0.0/2", "::/2", "4000::/3", "0.0.0.0/2"), false},
		{"all but an address", networks("::/0", "128.0.0.0/1", "64.0.0.0/2", "0.0.0.1/32"), false},
	} {
		if got := c.m.MatchesAll(); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestHTTPAttributes(t *testing.T) {
	r := httptest.NewRequest(http.MethodPost, "/a%2Fb?q=1&q=2&bad=%zz", strings.NewReader("body"))
	r.Host = "Example.COM.:8080"
	r.Header.Set("X-One", "1")
	r.AddCookie(&http.Cookie{Name: "s", Value: "v"})
	var h wire.Attributes
	h.Reset(r, netip.MustParseAddr("192.0.2.1"), nil)
	claim, err := h.Claim("sub")
	q, err2 := h.Query("q")
	s, err3 := h.Cookie("s")
	none, err4 := h.Cookie("t")
	if err := errors.Join(err2, err3, err4); err != nil {
		t.Error(err)
	}
	if _, err := h.Query("bad"); err == nil || !strings.Contains(err.Error(), "servers do not agree") {
		t.Errorf("bad: got %v", err)
	}
	got := fmt.Sprintln(h.Method(), h.Host(), h.Path(), h.Header("X-One"), h.Header("Host"), q, s, none, h.Client(), claim != "" || err != nil, h.Length())
	want := "POST example.com /a%2Fb [1] [example.com] [1 2] [v] [] 192.0.2.1 false 4\n"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
