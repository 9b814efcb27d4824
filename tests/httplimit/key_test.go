// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

const missing = "is missing"

func TestKeys(t *testing.T) {
	claim := httplimit.ByClaim("sub", func(r *http.Request) (string, bool) {
		v, ok := r.Header["X-Verified-Sub"]
		return strings.Join(v, ""), ok
	})
	huge := strings.Repeat("x", bounds.MaxValueBytes)
	cases := []struct {
		name   string
		key    httplimit.Key
		target string
		lines  []string
		want   string
		fault  string // in the error
	}{
		{"header", httplimit.ByHeader("x-user-id"), "/", []string{"X-User-Id: u1"}, "u1", ""},
		{"header with any bytes", httplimit.ByHeader("X-User-Id"), "/", []string{"X-User-Id: a\xff, b|c"}, "a\xff, b|c", ""},
		{"header missing", httplimit.ByHeader("X-User-Id"), "/", nil, "", "header X-User-Id is missing"},
		{"header empty", httplimit.ByHeader("X-User-Id"), "/", []string{"X-User-Id: "}, "", missing},
		{"header twice", httplimit.ByHeader("X-User-Id"), "/", []string{"X-User-Id: a", "X-User-Id: a"}, "", "sent more than once"},
		{"header of the greatest size", httplimit.ByHeader("X-User-Id"), "/", []string{"X-User-Id: " + huge}, huge, ""},
		{"header too large", httplimit.ByHeader("X-User-Id"), "/", []string{"X-User-Id: x" + huge}, "", "header X-User-Id is longer than 8192 bytes"},
		{"query", httplimit.ByQuery("userId"), "/?a=b&userId=u1&c=d", nil, "u1", ""},
		{"query escaped value", httplimit.ByQuery("userId"), "/?userId=a%26b+c", nil, "a&b c", ""},
		{"query escaped name", httplimit.ByQuery("userId"), "/?user%49d=u1", nil, "u1", ""},
		{"query name with a space", httplimit.ByQuery("user id"), "/?user+id=u1", nil, "u1", ""},
		{"query missing", httplimit.ByQuery("userId"), "/?user=u1&xuserId=2", nil, "", "query userId is missing"},
		{"query in other letters", httplimit.ByQuery("userId"), "/?userid=u1", nil, "", "send it under this name alone"},
		{"query empty", httplimit.ByQuery("userId"), "/?userId=", nil, "", missing},
		{"query without value", httplimit.ByQuery("userId"), "/?userId", nil, "", missing},
		{"no query", httplimit.ByQuery("userId"), "/", nil, "", missing},
		{"query twice", httplimit.ByQuery("userId"), "/?userId=u1&userId=u2", nil, "", "sent more than once"},
		{"query twice, once escaped", httplimit.ByQuery("userId"), "/?userId=u1&%75serId=u2", nil, "", "sent more than once"},
		{"query twice, once empty", httplimit.ByQuery("userId"), "/?userId=u1&userId=", nil, "", "sent more than once"},
		{"query bad escape", httplimit.ByQuery("userId"), "/?userId=%zz", nil, "", "escape a percent sign as %25"},
		{"query bad escape elsewhere", httplimit.ByQuery("userId"), "/?q=100%&userId=u1", nil, "u1", ""},
		{"query semicolon", httplimit.ByQuery("userId"), "/?userId=u1;x=1", nil, "", "semicolon"},
		{"query semicolon elsewhere", httplimit.ByQuery("userId"), "/?q=1;x=1&userId=u1", nil, "u1", ""},
		{"query behind a semicolon", httplimit.ByQuery("userId"), "/?x;userId=u1", nil, "", "semicolon"},
		{"query twice, once behind a semicolon", httplimit.ByQuery("userId"), "/?userId=u1&x;userId=u2", nil, "", "semicolon"},
		{"query behind a number sign", httplimit.ByQuery("userId"), "/?x%23y&userId=u1", nil, "u1", ""},
		{"query too large", httplimit.ByQuery("userId"), "/?userId=x" + huge, nil, "", "query userId is longer than 8192 bytes"},
		{"cookie", httplimit.ByCookie("sid"), "/", []string{"Cookie: a=b; sid=s1"}, "s1", ""},
		{"cookie escaped", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=%73%31"}, "s1", ""},
		{"cookie missing", httplimit.ByCookie("sid"), "/", []string{"Cookie: a=b"}, "", "cookie sid is missing"},
		{"cookie twice", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=s1; sid=s2"}, "", "sent more than once"},
		{"cookie twice in two lines", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=s1", "Cookie: sid=s2"}, "", "sent more than once"},
		{"cookie that net/http ignores", httplimit.ByCookie("sid"), "/", []string{`Cookie: sid="\141bc"`}, "", "bytes that no cookie may have"},
		{"cookie twice, once ignored", httplimit.ByCookie("sid"), "/", []string{`Cookie: sid=s1; sid=s2\`}, "", "bytes that no cookie may have"},
		{"cookie between blanks", httplimit.ByCookie("sid"), "/", []string{"Cookie: a=b; sid =  \"s1\"\t "}, "s1", ""},
		{"cookie with a blank within", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=s2 sid=s1"}, "", "has a blank, a comma or bytes that no cookie may have"},
		{"cookie with an escaped blank within", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=a%20b"}, "a b", ""},
		{"cookie within another", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=s2; a=b sid=s1"}, "", "under a name that some servers read as another"},
		{"cookie of almost that name", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid=s2; sid\u00a0=s1"}, "", "under a name that some servers read as another"},
		{"cookie without regard to case", httplimit.ByCookie("sid"), "/", []string{"Cookie: SID=s1"}, "", "under a name that some servers read as another"},
		{"cookie empty", httplimit.ByCookie("sid"), "/", []string{"Cookie: sid="}, "", missing},
		{"first segment", httplimit.ByPathSegment(1), "/users/u1/cart", nil, "users", ""},
		{"second segment", httplimit.ByPathSegment(2), "/users/u1/cart", nil, "u1", ""},
		{"last segment", httplimit.ByPathSegment(3), "/users/u1/cart", nil, "cart", ""},
		{"segment before a slash at the end", httplimit.ByPathSegment(2), "/users/u1/", nil, "u1", ""},
		{"segment behind the end", httplimit.ByPathSegment(3), "/users/u1/", nil, "", missing},
		{"segment of the root", httplimit.ByPathSegment(1), "/", nil, "", missing},
		{"segment escaped", httplimit.ByPathSegment(2), "/users/u%31%20x", nil, "u1 x", ""},
		{"segment with an escaped slash", httplimit.ByPathSegment(2), "/users/u1%2Fx", nil, "", "escaped slash"},
		{"segment with an escaped backslash", httplimit.ByPathSegment(2), "/users/u1%5Cx", nil, "", "escaped slash"},
		{"an escaped slash further on", httplimit.ByPathSegment(1), "/users/u1%2Fx", nil, "users", ""},
		{"empty segment", httplimit.ByPathSegment(2), "/users//u1", nil, "", "empty segment"},
		{"dots before", httplimit.ByPathSegment(2), "/x/../users/u1", nil, "", "segment of dots"},
		{"dots after", httplimit.ByPathSegment(1), "/u1/../u2", nil, "", "segment of dots"},
		{"one dot at the end", httplimit.ByPathSegment(1), "/u1/.", nil, "", "segment of dots"},
		{"dots escaped", httplimit.ByPathSegment(1), "/u1/%2e%2E/u2", nil, "", "segment of dots"},
		{"dots behind an escaped slash", httplimit.ByPathSegment(1), "/u1/x%2F..", nil, "", "segment of dots"},
		{"dots between backslashes", httplimit.ByPathSegment(1), `/u1/x%5C..%5Cu2`, nil, "", "segment of dots"},
		{"dots within names", httplimit.ByPathSegment(3), "/.u1/u2../...", nil, "...", ""},
		{"host", httplimit.ByHost(), "http://Example.COM.:8080/", nil, "example.com", ""},
		{"host is not in the header's fields", httplimit.ByHost(), "http://example.com/", []string{"Host: example.org:80:80"}, "example.com", ""},
		{"host as a field", httplimit.ByHeader("host"), "http://Example.COM.:8080/", nil, "example.com", ""},
		{"host of IPv6", httplimit.ByHost(), "http://[2001:db8::1]:8080/", nil, "[2001:db8::1]", ""},
		{"claim", claim, "/", []string{"X-Verified-Sub: alice"}, "alice", ""},
		{"claim missing", claim, "/", nil, "", "claim sub is missing"},
		{"claim empty", claim, "/", []string{"X-Verified-Sub: "}, "", missing},
		{"pattern outside a mux", httplimit.ByPattern(), "/", nil, "", "route is missing"},
		{"join", httplimit.Join(httplimit.ByHeader("A"), httplimit.ByQuery("b")), "/?b=2", []string{"A: 1"}, "1|2", ""},
		{"join escapes", httplimit.Join(httplimit.ByHeader("A"), httplimit.ByQuery("b")), "/?b=2", []string{"A: 1|%"}, "1%7C%25|2", ""},
		{"join lacks one", httplimit.Join(httplimit.ByHeader("A"), httplimit.ByQuery("b")), "/", []string{"A: 1"}, "", "query b is missing"},
		{"join of more than a key may hold", join(8, httplimit.ByHeader), "/", headers(8, huge), "", "is too long"},
		{"first of: the first", httplimit.FirstOf(httplimit.ByHeader("A"), httplimit.ByIP()), "/", []string{"A: 192.0.2.1"}, "1:192.0.2.1", ""},
		{"first of: the second", httplimit.FirstOf(httplimit.ByHeader("A"), httplimit.ByIP()), "/", nil, "2:192.0.2.1", ""},
		{"first of: none", httplimit.FirstOf(httplimit.ByHeader("A"), httplimit.ByHeader("B")), "/", nil, "", "header.A or header.B is missing"},
		{"first of: one that cannot be used is not passed over", httplimit.FirstOf(httplimit.ByHeader("A"), httplimit.ByIP()), "/", []string{"A: 1", "A: 2"}, "", "sent more than once"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := keyOf(t, c.key, request(t, c.target, c.lines...))
			if c.fault == "" {
				if err != nil || got != c.want {
					t.Errorf("got %q, %v, want %q", got, err, c.want)
				}
				return
			}
			var bad *policy.PartError
			if !errors.As(err, &bad) || !strings.Contains(err.Error(), c.fault) || got != "" {
				t.Fatalf("got %q, %v, want the error %q", got, err, c.fault)
			}
			if want := strings.Contains(c.fault, missing); bad.Missing != want {
				t.Errorf("Missing is %v, want %v: %v", bad.Missing, want, err)
			}
		})
	}
}

// join returns a Key of n fields, whose lines headers returns.
func join(n int, key func(name string) httplimit.Key) httplimit.Key {
	keys := make([]httplimit.Key, n)
	for i := range keys {
		keys[i] = key(fmt.Sprint("A", i))
	}
	return httplimit.Join(keys...)
}

func headers(n int, value string) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("A%d: %s", i, value)
	}
	return lines
}

func TestByIP(t *testing.T) {
	behind := httplimit.ClientIP{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	realIP := behind
	realIP.Header = "X-Real-IP"
	wide := httplimit.ClientIP{IPv4Bits: 24, IPv6Bits: 48}
	cases := []struct {
		name   string
		key    httplimit.Key
		remote string
		lines  []string
		want   string
	}{
		{"peer", httplimit.ByIP(), "203.0.113.9:55", nil, "203.0.113.9"},
		{"no header is trusted by default", httplimit.ByIP(), "127.0.0.1:55", []string{"X-Forwarded-For: 1.1.1.1", "X-Real-IP: 1.1.1.1", "Forwarded: for=1.1.1.1"}, "127.0.0.1"},
		{"IPv6 by its /64", httplimit.ByIP(), "[2001:db8:1:2:3:4:5:6]:55", nil, "2001:db8:1:2::/64"},
		{"through a proxy", httplimit.ByClientIP(behind), "10.0.0.1:55", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"around the proxy", httplimit.ByClientIP(behind), "203.0.113.9:55", []string{"X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"X-Real-IP", httplimit.ByClientIP(realIP), "10.0.0.1:55", []string{"X-Real-IP: 203.0.113.9", "X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"IPv4 by prefix", httplimit.ByClientIP(wide), "203.0.113.9:55", nil, "203.0.113.0/24"},
		{"IPv6 by prefix", httplimit.ByClientIP(wide), "[2001:db8:1:2:3:4:5:6]:55", nil, "2001:db8:1::/48"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, "/", c.lines...)
			r.RemoteAddr = c.remote
			if got, err := keyOf(t, c.key, r); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	r := request(t, "/")
	r.RemoteAddr = "@"
	for want, key := range map[string]httplimit.Key{"ip": httplimit.ByIP(), "client address": httplimit.ByClientIP(behind)} {
		if got, err := keyOf(t, key, r); err == nil || err.Error() != want+" is missing" {
			t.Errorf("on a Unix socket: got %q, %v, want that the %s is missing", got, err, want)
		}
	}
}

// The routes' keys are the patterns, seen from within the mux and from outside.
func TestByPatternAndByRoute(t *testing.T) {
	mux := http.NewServeMux()
	var inside string
	var err error
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) {
		inside, err = keyOf(t, httplimit.ByPattern(), r)
	})
	r := request(t, "/users/u1")
	outside, err2 := keyOf(t, httplimit.ByRoute(mux), r)
	mux.ServeHTTP(httptest.NewRecorder(), r)
	const want = "GET /users/{id}"
	if inside != want || outside != want || err != nil || err2 != nil {
		t.Errorf("got %q, %v inside and %q, %v outside, want %q", inside, err, outside, err2, want)
	}
	if got, err := keyOf(t, httplimit.ByRoute(mux), request(t, "/nowhere")); err == nil {
		t.Errorf("a path without a pattern has the key %q", got)
	}
}

func TestKeyFunc(t *testing.T) {
	down := errors.New("session store is down")
	for _, c := range []struct {
		name, value string
		err         error
		want        string
		missing     bool
	}{
		{"value", "v", nil, "v", false},
		{"empty", "", nil, "", true},
		{"missing", "", &policy.PartError{Missing: true}, "", true},
		{"invalid", "", httplimit.Invalid("is not signed"), "", false},
		{"other error", "", down, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			key := httplimit.KeyFunc("session", func(*http.Request) (string, error) { return c.value, c.err })
			got, err := keyOf(t, key, request(t, "/"))
			var bad *policy.PartError
			if isMissing := errors.As(err, &bad) && bad.Missing; got != c.want || isMissing != c.missing {
				t.Errorf("got %q, %v, want %q, missing %v", got, err, c.want, c.missing)
			}
			if errors.Is(c.err, down) && (!errors.Is(err, down) || bad != nil) {
				t.Errorf("got error %v, want %v", err, down)
			}
			if c.name == "invalid" && (bad == nil || bad.Error() != "session is not signed") {
				t.Errorf("got error %v, want that it is not signed", err)
			}
		})
	}
}

func TestBadKeys(t *testing.T) {
	noClaim := func(*http.Request) (string, bool) { return "", false }
	for name, c := range map[string]struct {
		key  httplimit.Key
		want []string
	}{
		"zero":            {httplimit.Key{}, []string{"is not a part of a key"}},
		"header":          {httplimit.ByHeader("X User"), []string{`"X User" is not a header field's name`}},
		"header empty":    {httplimit.ByHeader(""), []string{"header lacks a name"}},
		"query":           {httplimit.ByQuery(""), []string{"query lacks a name"}},
		"cookie":          {httplimit.ByCookie("a=b"), []string{"is not a cookie's name"}},
		"segment":         {httplimit.ByPathSegment(0), []string{"use path.1 for the first"}},
		"route":           {httplimit.ByRoute(nil), []string{`the function of "route" is nil`}},
		"claim":           {httplimit.ByClaim("sub", nil), []string{`the function of "claim sub" is nil`}},
		"claim name":      {httplimit.ByClaim("", noClaim), []string{"lacks a name"}},
		"func":            {httplimit.KeyFunc("x", nil), []string{`the function of "x" is nil`}},
		"func name":       {httplimit.KeyFunc("", nil), []string{"lacks a name"}},
		"join of none":    {httplimit.Join(), []string{"is made of no parts"}},
		"first of none":   {httplimit.FirstOf(), []string{"is made of no parts"}},
		"join, all parts": {httplimit.Join(httplimit.ByQuery(""), httplimit.ByIP(), httplimit.ByPathSegment(-1)), []string{"query lacks a name", "use path.1 for the first"}},
		"IP":              {httplimit.ByClientIP(httplimit.ClientIP{IPv6Bits: 129, Header: "X-Real-IP"}), []string{"IPv6Bits: 129", "list their networks"}},
	} {
		_, err := httplimit.Limit(newStore(newClock()), "api", c.key, sluice.PerMinute(1))
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got error %v, want %q", name, err, want)
			}
		}
	}
}

// A key is never longer than a Store accepts.
func TestKeysFitTheStore(t *testing.T) {
	key := join(5, httplimit.ByHeader)
	long := strings.Repeat("%", bounds.MaxValueBytes) // each becomes three bytes
	got, err := keyOf(t, key, request(t, "/", headers(5, long)...))
	if err == nil || len(got) > sluice.MaxKeyBytes {
		t.Errorf("got a key of %d bytes, %v", len(got), err)
	}
}
