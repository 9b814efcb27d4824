// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package attack_test

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"regexp"
	"strings"
	"testing"
)

// spelling is a spelling of a request's target.
type spelling struct {
	target string
	want   int
	// left names a reader that takes a request that passes for the path; such readers are left
	// to the rules: see docs/requests.md.
	left string
}

const (
	refused = http.StatusBadRequest
	charged = http.StatusTooManyRequests
	passes  = http.StatusOK
	slash   = "a reader without slashes at the end"
	letters = "a reader without case"
	params  = "a reader of parameters"
	twice   = "a reader that unescapes twice"
)

// spellings are spellings of /login, whose rule matches that path, and of /admin/x, whose rule
// matches all below /admin/. Both budgets are spent.
var spellings = []spelling{
	{"/login", charged, ""},
	{"/login?", charged, ""},
	{"/login?a=/x", charged, ""},
	{"/login#x", passes, ""},
	{"/%6cogin", charged, ""},
	{"/%6C%6F%67%69%6E", charged, ""},
	{"/logi%6e?x", charged, ""},
	{"//login", charged, ""},
	{"///login", charged, ""},
	{"/./login", charged, ""},
	{"/x/../login", charged, ""},
	{"/../login", charged, ""},
	{"/../../../login", charged, ""},
	{"/x/y/../../login", charged, ""},
	{"/%2e/login", charged, ""},
	{"/x/%2e%2e/login", charged, ""},
	{"/x/.%2E/login", charged, ""},
	{"/x/%2e./login", charged, ""},
	{"/%2flogin", charged, ""},
	{"/%2Flogin", charged, ""},
	{"%2flogin", refused, ""},
	{"/x%2f..%2flogin", charged, ""},
	{"/x/..%2flogin", charged, ""},
	{"/x%2F%2e%2e%2Flogin", charged, ""},
	{"/%5clogin", charged, ""},
	{"/%5Clogin", charged, ""},
	{`/\login`, charged, ""},
	{`/x\..\login`, charged, ""},
	{`/x/..\login`, charged, ""},
	{"/x%5c..%5clogin", charged, ""},
	{`\login`, refused, ""},
	{"/login/.", passes, slash},
	{"/login/", passes, slash},
	{"/login//", passes, slash},
	{"/login/x/..", passes, slash},
	{"/login%2f", passes, slash},
	{"/login%5c", passes, slash},
	{"/LOGIN", passes, letters},
	{"/lo%47in", passes, letters},
	{"/login;x=1", passes, params},
	{"/;x/login", passes, params},
	{"/x/..;/login", passes, params},
	{"/login%3bx", passes, params},
	{"/%256cogin", passes, twice},
	{"/x/%252e%252e/login", passes, twice},
	{"/%252flogin", passes, twice},
	{"/login%00", passes, ""},
	{"/login%00.png", passes, ""},
	{"/login%20", passes, ""},
	{"/login%09", passes, ""},
	{"/login%0a", passes, ""},
	{"/login.", passes, ""},
	{"/%c0%afcogin", passes, ""},
	{"/%c0%aflogin", passes, ""},
	{"/x/%c0%ae%c0%ae/login", passes, ""},
	{"/%e0%80%aflogin", passes, ""},
	{"/%ef%bc%8flogin", passes, ""},
	{"/l%u006fgin", refused, ""},
	{"/login%", refused, ""},
	{"/login%2", refused, ""},
	{"/login%zz", refused, ""},
	{"/login\t", refused, ""},
	{"/login\x00", refused, ""},
	{"/login\x7f", refused, ""},
	{"/lo\rgin", refused, ""},
	{"http://app.example/login", charged, ""},
	{"HTTP://app.example/login", charged, ""},
	{"http://other.example/login", charged, ""},
	{"http://app.example//login", charged, ""},
	{"http://app.example/x/..%2flogin", charged, ""},
	{"https://app.example/login", charged, ""},
	{"//app.example/login", passes, ""},
	{"///app.example/../login", charged, ""},
	{"http:/login", charged, ""},
	{"http:///login", charged, ""},
	{"http:login", refused, ""},
	{"x:http://h/login", refused, ""},
	{"x:/login", charged, ""},
	{"x:%2flogin", refused, ""},
	{"login", refused, ""},
	{"*", passes, ""},
	{"*/login", refused, ""},
	{"?/login", refused, ""},
	{"", refused, ""},

	{"/admin/", charged, ""},
	{"/admin/x/y", charged, ""},
	{"/admin/../admin/x", charged, ""},
	{"/admin/./x", charged, ""},
	{"/admin//x", charged, ""},
	{"//admin/x", charged, ""},
	{"/admin%2fx", charged, ""},
	{"/admin%5cx", charged, ""},
	{`/admin\x`, charged, ""},
	{"/%61dmin/x", charged, ""},
	{"/x/..%2fadmin%2fx", charged, ""},
	{"/admin%2f..%2fadmin/x", charged, ""},
	{"/admin/%2e%2e/admin/x", charged, ""},
	{"http://app.example/admin/x", charged, ""},
	{"/admin/%00", charged, ""},
	{"/admin/%c0%af", charged, ""},
	{"/admin/;x", charged, ""},
	{"/admin/..", passes, ""},
	{"/admin/../x", passes, ""},
	{"/admin/..%2fx", charged, ""},
	{"/admin", passes, slash},
	{"/admin;x/y", passes, params},
	{"/Admin/x", passes, letters},
}

// TestPaths: every spelling of a path that reaches the upstream's path is charged, except for
// those left to the rules.
func TestPaths(t *testing.T) {
	t.Parallel()
	g, u := behind(t, `
rules:
  - {name: login, match: {path: /login}, by: ip, limits: 1/h sliding-log}
  - {name: admin, match: {path: /admin/}, by: ip, limits: 1/h sliding-log}
`)
	for i, s := range spellings {
		t.Run(s.target, func(t *testing.T) {
			t.Parallel()
			c := g.client(address())
			for _, plain := range []string{"/login", "/admin/x"} {
				if got := c.get(t, "plain", plain); got.status != passes {
					t.Fatalf("%s: got %d at first", plain, got.status)
				}
			}
			row := number("path", i)
			if got := c.get(t, row, s.target); got.status != s.want {
				t.Errorf("got %d, want %d", got.status, s.want)
			}
			got := u.of(row)
			if (len(got) == 1) != (s.want == passes) || len(got) > 1 {
				t.Fatalf("the upstream got %+v", got)
			}
			if len(got) == 0 {
				return
			}
			for reader, read := range readers {
				if at := read(t, got[0].target); at == "/login" || strings.HasPrefix(at, "/admin/") {
					t.Errorf("%s reads %q as %q, and nothing was charged", reader, got[0].target, at)
				}
			}
			if s.left == "" {
				return
			}
			if at := lax[s.left](got[0].target); at != "/login" && !strings.HasPrefix(at, "/admin") {
				t.Errorf("%s reads %q as %q: there is nothing to leave to the rules", s.left, got[0].target, at)
			}
		})
	}
}

// readers resolve targets like common servers.
var readers = map[string]func(*testing.T, string) string{
	"ServeMux": func(t *testing.T, target string) (at string) {
		t.Helper()
		r, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")))
		if err != nil {
			return ""
		}
		mux := http.NewServeMux()
		for _, p := range []string{"/login", "/admin/", "/"} {
			mux.HandleFunc(p, func(http.ResponseWriter, *http.Request) { at = p })
		}
		mux.ServeHTTP(httptest.NewRecorder(), r)
		return at // empty for a redirect: the client sends another request
	},
	// nginx, and applications behind CGI.
	"a reader of unescaped paths": func(_ *testing.T, target string) string {
		return clean(target)
	},
	"a reader that takes a backslash for a slash": func(_ *testing.T, target string) string {
		return clean(strings.NewReplacer(`\`, "/", "%5c", "/", "%5C", "/").Replace(target))
	},
}

// lax holds readers of few servers.
var lax = map[string]func(string) string{
	slash: func(target string) string {
		return strings.TrimRight(clean(strings.ReplaceAll(target, "%5c", "/")), "/")
	},
	letters: func(target string) string { return strings.ToLower(clean(target)) },
	twice:   func(target string) string { return clean(clean(target)) },
	params: func(target string) string {
		return clean(regexp.MustCompile("(?i)(;|%3b)[^/]*").ReplaceAllString(target, ""))
	},
}

// clean unescapes a path and then resolves its dot segments.
func clean(target string) string {
	before, _, _ := strings.Cut(target, "?")
	p, err := url.PathUnescape(before)
	if err != nil {
		return ""
	}
	end := ""
	if strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/.") || strings.HasSuffix(p, "/..") {
		end = "/"
	}
	if p = path.Clean("/" + p); p != "/" {
		p += end
	}
	return p
}
