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
	claim := httplimit.KeyFunc("claim sub", func(r *http.Request) (string, error) {
		return strings.Join(r.Header["X-Verified-Sub"], ""), nil
	})
	huge := strings.Repeat("x", bounds.MaxValueBytes)
	cases := []struct {
		name   string
		key    policy.Part
		target string
		lines  []string
		want   string
		fault  string // in the error
	}{
		{"header", policy.Header("x-user-id"), "/", []string{"X-User-Id: u1"}, "u1", ""},
		{"header with any bytes", policy.Header("X-User-Id"), "/", []string{"X-User-Id: a\xff, b|c"}, "a\xff, b|c", ""},
		{"header missing", policy.Header("X-User-Id"), "/", nil, "", "header X-User-Id is missing"},
		{"header empty", policy.Header("X-User-Id"), "/", []string{"X-User-Id: "}, "", missing},
		{"header twice", policy.Header("X-User-Id"), "/", []string{"X-User-Id: a", "X-User-Id: a"}, "", "sent more than once"},
		{"header of the greatest size", policy.Header("X-User-Id"), "/", []string{"X-User-Id: " + huge}, huge, ""},
		{"header too large", policy.Header("X-User-Id"), "/", []string{"X-User-Id: x" + huge}, "", "header X-User-Id is longer than 8192 bytes"},
		{"query", policy.Query("userId"), "/?a=b&userId=u1&c=d", nil, "u1", ""},
		{"query escaped value", policy.Query("userId"), "/?userId=a%26b+c", nil, "a&b c", ""},
		{"query escaped name", policy.Query("userId"), "/?user%49d=u1", nil, "u1", ""},
		{"query name with a space", policy.Query("user id"), "/?user+id=u1", nil, "u1", ""},
		{"query missing", policy.Query("userId"), "/?user=u1&xuserId=2", nil, "", "query userId is missing"},
		{"query in other letters", policy.Query("userId"), "/?userid=u1", nil, "", "send it under this name alone"},
		{"query empty", policy.Query("userId"), "/?userId=", nil, "", missing},
		{"query without value", policy.Query("userId"), "/?userId", nil, "", missing},
		{"no query", policy.Query("userId"), "/", nil, "", missing},
		{"query twice", policy.Query("userId"), "/?userId=u1&userId=u2", nil, "", "sent more than once"},
		{"query twice, once escaped", policy.Query("userId"), "/?userId=u1&%75serId=u2", nil, "", "sent more than once"},
		{"query twice, once empty", policy.Query("userId"), "/?userId=u1&userId=", nil, "", "sent more than once"},
		{"query bad escape", policy.Query("userId"), "/?userId=%zz", nil, "", "escape a percent sign as %25"},
		{"query bad escape elsewhere", policy.Query("userId"), "/?q=100%&userId=u1", nil, "u1", ""},
		{"query semicolon", policy.Query("userId"), "/?userId=u1;x=1", nil, "", "semicolon"},
		{"query semicolon elsewhere", policy.Query("userId"), "/?q=1;x=1&userId=u1", nil, "u1", ""},
		{"query behind a semicolon", policy.Query("userId"), "/?x;userId=u1", nil, "", "semicolon"},
		{"query twice, once behind a semicolon", policy.Query("userId"), "/?userId=u1&x;userId=u2", nil, "", "semicolon"},
		{"query behind a number sign", policy.Query("userId"), "/?x%23y&userId=u1", nil, "u1", ""},
		{"query too large", policy.Query("userId"), "/?userId=x" + huge, nil, "", "query userId is longer than 8192 bytes"},
		{"cookie", policy.Cookie("sid"), "/", []string{"Cookie: a=b; sid=s1"}, "s1", ""},
		{"cookie escaped", policy.Cookie("sid"), "/", []string{"Cookie: sid=%73%31"}, "s1", ""},
		{"cookie missing", policy.Cookie("sid"), "/", []string{"Cookie: a=b"}, "", "cookie sid is missing"},
		{"cookie twice", policy.Cookie("sid"), "/", []string{"Cookie: sid=s1; sid=s2"}, "", "sent more than once"},
		{"cookie twice in two lines", policy.Cookie("sid"), "/", []string{"Cookie: sid=s1", "Cookie: sid=s2"}, "", "sent more than once"},
		{"cookie that net/http ignores", policy.Cookie("sid"), "/", []string{`Cookie: sid="\141bc"`}, "", "bytes that no cookie may have"},
		{"cookie twice, once ignored", policy.Cookie("sid"), "/", []string{`Cookie: sid=s1; sid=s2\`}, "", "bytes that no cookie may have"},
		{"cookie between blanks", policy.Cookie("sid"), "/", []string{"Cookie: a=b; sid =  \"s1\"\t "}, "s1", ""},
		{"cookie with a blank within", policy.Cookie("sid"), "/", []string{"Cookie: sid=s2 sid=s1"}, "", "has a blank, a comma or bytes that no cookie may have"},
		{"cookie with an escaped blank within", policy.Cookie("sid"), "/", []string{"Cookie: sid=a%20b"}, "a b", ""},
		{"cookie within another", policy.Cookie("sid"), "/", []string{"Cookie: sid=s2; a=b sid=s1"}, "", "under a name that some servers read as another"},
		{"cookie of almost that name", policy.Cookie("sid"), "/", []string{"Cookie: sid=s2; sid\u00a0=s1"}, "", "under a name that some servers read as another"},
		{"cookie without regard to case", policy.Cookie("sid"), "/", []string{"Cookie: SID=s1"}, "", "under a name that some servers read as another"},
		{"cookie empty", policy.Cookie("sid"), "/", []string{"Cookie: sid="}, "", missing},
		{"first segment", policy.Segment(1), "/users/u1/cart", nil, "users", ""},
		{"second segment", policy.Segment(2), "/users/u1/cart", nil, "u1", ""},
		{"last segment", policy.Segment(3), "/users/u1/cart", nil, "cart", ""},
		{"segment before a slash at the end", policy.Segment(2), "/users/u1/", nil, "u1", ""},
		{"segment behind the end", policy.Segment(3), "/users/u1/", nil, "", missing},
		{"segment of the root", policy.Segment(1), "/", nil, "", missing},
		{"segment escaped", policy.Segment(2), "/users/u%31%20x", nil, "u1 x", ""},
		{"segment with an escaped slash", policy.Segment(2), "/users/u1%2Fx", nil, "", "escaped slash"},
		{"segment with an escaped backslash", policy.Segment(2), "/users/u1%5Cx", nil, "", "escaped slash"},
		{"an escaped slash further on", policy.Segment(1), "/users/u1%2Fx", nil, "users", ""},
		{"empty segment", policy.Segment(2), "/users//u1", nil, "", "empty segment"},
		{"dots before", policy.Segment(2), "/x/../users/u1", nil, "", "segment of dots"},
		{"dots after", policy.Segment(1), "/u1/../u2", nil, "", "segment of dots"},
		{"one dot at the end", policy.Segment(1), "/u1/.", nil, "", "segment of dots"},
		{"dots escaped", policy.Segment(1), "/u1/%2e%2E/u2", nil, "", "segment of dots"},
		{"dots behind an escaped slash", policy.Segment(1), "/u1/x%2F..", nil, "", "segment of dots"},
		{"dots between backslashes", policy.Segment(1), `/u1/x%5C..%5Cu2`, nil, "", "segment of dots"},
		{"dots within names", policy.Segment(3), "/.u1/u2../...", nil, "...", ""},
		{"host", policy.Host(), "http://Example.COM.:8080/", nil, "example.com", ""},
		{"host is not in the header's fields", policy.Host(), "http://example.com/", []string{"Host: example.org:80:80"}, "example.com", ""},
		{"host as a field", policy.Header("host"), "http://Example.COM.:8080/", nil, "example.com", ""},
		{"host of IPv6", policy.Host(), "http://[2001:db8::1]:8080/", nil, "[2001:db8::1]", ""},
		{"claim", claim, "/", []string{"X-Verified-Sub: alice"}, "alice", ""},
		{"claim missing", claim, "/", nil, "", "claim sub is missing"},
		{"claim empty", claim, "/", []string{"X-Verified-Sub: "}, "", missing},
		{"pattern outside a mux", httplimit.ByPattern(), "/", nil, "", "route is missing"},
		{"join", policy.All(policy.Header("A"), policy.Query("b")), "/?b=2", []string{"A: 1"}, "1|2", ""},
		{"join escapes", policy.All(policy.Header("A"), policy.Query("b")), "/?b=2", []string{"A: 1|%"}, "1%7C%25|2", ""},
		{"join lacks one", policy.All(policy.Header("A"), policy.Query("b")), "/", []string{"A: 1"}, "", "query b is missing"},
		{"join of more than a key may hold", join(8, policy.Header), "/", headers(8, huge), "", "is too long"},
		{"first of: the first", policy.First(policy.Header("A"), policy.IP()), "/", []string{"A: 192.0.2.1"}, "1:192.0.2.1", ""},
		{"first of: the second", policy.First(policy.Header("A"), policy.IP()), "/", nil, "2:192.0.2.1", ""},
		{"first of: none", policy.First(policy.Header("A"), policy.Header("B")), "/", nil, "", "header.A or header.B is missing"},
		{"first of: one that cannot be used is not passed over", policy.First(policy.Header("A"), policy.IP()), "/", []string{"A: 1", "A: 2"}, "", "sent more than once"},
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

// join returns a key of n fields, whose lines headers returns.
func join(n int, key func(name string) policy.Part) policy.Part {
	keys := make([]policy.Part, n)
	for i := range keys {
		keys[i] = key(fmt.Sprint("A", i))
	}
	return policy.All(keys...)
}

func headers(n int, value string) []string {
	lines := make([]string, n)
	for i := range lines {
		lines[i] = fmt.Sprintf("A%d: %s", i, value)
	}
	return lines
}

func TestByIP(t *testing.T) {
	behind := httplimit.Options{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	realIP := behind
	realIP.ClientHeader = "X-Real-IP"
	peer := httplimit.Options{}
	cases := []struct {
		name    string
		options httplimit.Options
		key     policy.Part
		remote  string
		lines   []string
		want    string
	}{
		{"peer", peer, policy.IP(), "203.0.113.9:55", nil, "203.0.113.9"},
		{"no header is trusted by default", peer, policy.IP(), "127.0.0.1:55", []string{"X-Forwarded-For: 1.1.1.1", "X-Real-IP: 1.1.1.1", "Forwarded: for=1.1.1.1"}, "127.0.0.1"},
		{"IPv6 by its /64", peer, policy.IP(), "[2001:db8:1:2:3:4:5:6]:55", nil, "2001:db8:1:2::/64"},
		{"through a proxy", behind, policy.IP(), "10.0.0.1:55", []string{"X-Forwarded-For: 1.1.1.1, 203.0.113.9"}, "203.0.113.9"},
		{"around the proxy", behind, policy.IP(), "203.0.113.9:55", []string{"X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"X-Real-IP", realIP, policy.IP(), "10.0.0.1:55", []string{"X-Real-IP: 203.0.113.9", "X-Forwarded-For: 1.1.1.1"}, "203.0.113.9"},
		{"IPv4 by prefix", peer, policy.Network(24, 48), "203.0.113.9:55", nil, "203.0.113.0/24"},
		{"IPv6 by prefix", peer, policy.Network(24, 48), "[2001:db8:1:2:3:4:5:6]:55", nil, "2001:db8:1::/48"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := request(t, "/", c.lines...)
			r.RemoteAddr = c.remote
			if got, err := keyerWith(t, c.options, c.key)(r); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	r := request(t, "/")
	r.RemoteAddr = "@"
	for _, o := range []httplimit.Options{peer, behind} {
		if got, err := keyerWith(t, o, policy.IP())(r); err == nil || err.Error() != "ip is missing" {
			t.Errorf("on a Unix socket: got %q, %v, want that the ip is missing", got, err)
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
		{"invalid", "", &policy.PartError{Problem: "is not signed"}, "", false},
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
	for name, c := range map[string]struct {
		key  policy.Part
		want []string
	}{
		"zero":            {policy.Part{}, []string{"is not a part of a key"}},
		"header":          {policy.Header("X User"), []string{`"X User" is not a header field's name`}},
		"header empty":    {policy.Header(""), []string{"header lacks a name"}},
		"query":           {policy.Query(""), []string{"query lacks a name"}},
		"cookie":          {policy.Cookie("a=b"), []string{"is not a cookie's name"}},
		"segment":         {policy.Segment(0), []string{"use path.1 for the first"}},
		"route":           {httplimit.ByRoute(nil), []string{`the function of "route" is nil`}},
		"func":            {httplimit.KeyFunc("x", nil), []string{`the function of "x" is nil`}},
		"func name":       {httplimit.KeyFunc("", nil), []string{"lacks a name"}},
		"join of none":    {policy.All(), []string{"is made of no parts"}},
		"first of none":   {policy.First(), []string{"is made of no parts"}},
		"join, all parts": {policy.All(policy.Query(""), policy.IP(), policy.Segment(-1)), []string{"query lacks a name", "use path.1 for the first"}},
		"network":         {policy.Network(24, 129), []string{"129"}},
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
	key := join(5, policy.Header)
	long := strings.Repeat("%", bounds.MaxValueBytes) // each becomes three bytes
	got, err := keyOf(t, key, request(t, "/", headers(5, long)...))
	if err == nil || len(got) > sluice.MaxKeyBytes {
		t.Errorf("got a key of %d bytes, %v", len(got), err)
	}
}
