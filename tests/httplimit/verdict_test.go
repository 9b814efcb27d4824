// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit_test

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/policy"
)

// TestAdmits: the set of networks gives the same answers as a walk over all of them.
func TestAdmits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) // repeatable
	random := func() netip.Addr {
		if r.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(r.IntN(4)), byte(r.IntN(4)), byte(r.IntN(256))})
		}
		return netip.AddrFrom16([16]byte{0x20, 0x01, 0x0d, 0xb8, byte(r.IntN(4)), 15: byte(r.IntN(256))})
	}
	list := func(n int) (all []netip.Prefix) {
		for range n {
			a := random()
			p, err := a.Prefix(r.IntN(a.BitLen()-8) + 8)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		return all
	}
	holds := func(all []netip.Prefix, a netip.Addr) bool {
		return slices.ContainsFunc(all, func(p netip.Prefix) bool { return p.Contains(a.Unmap()) })
	}
	for range 50 {
		allow, deny := list(r.IntN(4)), list(r.IntN(4))
		g := newGuard(t, "  - {name: a, limits: 1/s}", echo, httplimit.Options{Allow: allow, Deny: deny})
		admits := func(client string) bool {
			r := requestOf(t, "GET", "/", "")
			if r.RemoteAddr = client; client != "@" {
				r.RemoteAddr = net.JoinHostPort(client, "55")
			}
			return answer(g, r).Code != http.StatusForbidden
		}
		for range 200 {
			a := random()
			if a.Is4() && r.IntN(2) == 0 {
				a = netip.AddrFrom16(a.As16())
			}
			want := !holds(deny, a) && (len(allow) == 0 || holds(allow, a))
			if got := admits(a.String()); got != want {
				t.Fatalf("%v with allow %v, deny %v: got %v", a, allow, deny, got)
			}
		}
		if got := admits("@"); got != (len(allow) == 0) {
			t.Errorf("a client without address, allow %v: got %v", allow, got)
		}
	}
}

// TestClaimsAreVerifiedOnce: and only if a rule needs one.
func TestClaimsAreVerifiedOnce(t *testing.T) {
	asked := 0
	claims := func(*http.Request) (func(string) (string, error), error) {
		asked++
		return func(name string) (string, error) { return "value of " + name, nil }, nil
	}
	g := newGuard(t, "  - {name: a, match: {path: /a}, by: [claim.x, claim.y], limits: 1/s}\n  - {name: b, by: ip, limits: 9/s}", echo, httplimit.Options{Claims: claims})
	for path, want := range map[string]int{"/": 0, "/a": 1} {
		asked = 0
		if w := answer(g, requestOf(t, "GET", path, "")); w.Code != http.StatusOK || asked != want {
			t.Errorf("%s: got %d, verified %d times, want %d", path, w.Code, asked, want)
		}
	}
}

// TestClaimsThatFail: a client reads the problems of tokens and claims, and not other errors,
// which are reported.
func TestClaimsThatFail(t *testing.T) {
	secret := errors.New("dial 10.0.0.5: refused")
	expired := &policy.TokenError{Problem: "the token has expired"}
	list := &policy.PartError{Problem: "is a list"}
	for _, c := range []struct {
		name        string
		token, read error
		status      int
		want        string
		reported    bool
	}{
		{"a token", fmt.Errorf("10.0.0.5: %w", expired), nil, 401, "the token has expired", false},
		{"a token, seen late", nil, expired, 401, "the token has expired", false},
		{"a key server", secret, nil, 401, "the token cannot be verified", true},
		{"a claim", nil, fmt.Errorf("10.0.0.5: %w", list), 400, "claim sub is a list", false},
		{"a server of claims", nil, secret, 400, "claim sub cannot be read", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var reported errorList
			g := newGuard(t, "  - {name: a, by: claim.sub, missing: skip, limits: 1/s}\n", echo, httplimit.Options{
				OnError: reported.report,
				Claims: func(*http.Request) (func(string) (string, error), error) {
					return func(string) (string, error) { return "", c.read }, c.token
				},
			})
			w := answer(g, requestOf(t, "GET", "/", ""))
			text := w.Body.String() + w.Header().Get("WWW-Authenticate")
			if w.Code != c.status || !strings.Contains(text, c.want) || strings.Contains(text, "10.0.0.5") {
				t.Errorf("got %d %q, want %d %q", w.Code, text, c.status, c.want)
			}
			if got := errors.Is(errors.Join(reported.all()...), secret); got != c.reported {
				t.Errorf("reported %v, want that it is %v", reported.all(), c.reported)
			}
		})
	}
}

// TestVerdictIsReportedOnce: for every verdict, with the policy's verdict if it was
// evaluated.
func TestVerdictIsReportedOnce(t *testing.T) {
	var reported []string
	o := httplimit.Options{
		Deny: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
		OnDecision: func(_ *http.Request, e httplimit.Event) {
			evaluated := "not evaluated"
			if e.Evaluated != nil {
				evaluated = fmt.Sprint(e.Evaluated.Allowed)
			}
			reported = append(reported, fmt.Sprintf("%v %d %s", e.Verdict, e.Status, evaluated))
		},
	}
	g := newGuard(t, "  - {name: a, by: header.X-User, limits: 1/min}", echo, o)
	for _, user := range []string{"ada", "ada", "", "denied"} {
		r := requestOf(t, "GET", "/", "")
		r.Header.Set("X-User", user)
		if user == "denied" {
			r.RemoteAddr = "203.0.113.9:4711"
		}
		answer(g, r)
	}
	want := []string{"allowed 0 true", "denied 429 false", "refused 400 false", "refused 403 not evaluated"}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// TestFieldsSayWhatALimitHolds: the remaining units never exceed the limit, and the warning
// compares them with the full limit.
func TestFieldsSayWhatALimitHolds(t *testing.T) {
	for _, c := range []struct {
		limits     string
		full, left string
		near       bool
	}{
		{"100/min burst 1000", "1000", "999", false},
		{"100/min burst 5", "5", "4", false},
		{"100/min burst 1", "1", "0", true},
		{"5/min fixed-window", "5", "4", false},
	} {
		g := newGuard(t, "  - {name: a, by: ip, limits: "+c.limits+"}", echo, httplimit.Options{Fields: httplimit.XRateLimit})
		w := answer(g, requestOf(t, "GET", "/", ""))
		field := func(name string) string { return strings.Join(w.Header()[name], ", ") }
		if full, left := field("X-RateLimit-Limit"), field("X-RateLimit-Remaining"); full != c.full || left != c.left {
			t.Errorf("%s: limit %s, remaining %s; want %s, %s", c.limits, full, left, c.full, c.left)
		}
		if warning := field("RateLimit-Warning"); (warning != "") != c.near {
			t.Errorf("%s: warning %q, want one: %v", c.limits, warning, c.near)
		}
	}
}

// TestMissingOptions: all are reported at once.
func TestMissingOptions(t *testing.T) {
	_, err := httplimit.New(httplimit.Options{ClientHeader: "X-Real-IP"})
	for _, want := range []string{"Rules", "Store", "client address"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestRequestsAreReused: nothing of one request is seen by the next, with many at a time.
func TestRequestsAreReused(t *testing.T) {
	g := newGuard(t, "  - {name: a, by: header.X-User, cost: response-bytes, limits: 1000000B/min debt 10}", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(w, r.Header.Get("X-User")+string(body)); err != nil {
			t.Error(err)
		}
	}, httplimit.Options{})
	t.Run("parallel", func(t *testing.T) {
		for _, user := range []string{"ada", "bob", "cho", "dee"} {
			t.Run(user, func(t *testing.T) {
				t.Parallel()
				for range 200 {
					r := requestOf(t, "POST", "/", "+"+user)
					r.Header.Set("X-User", user)
					if w := answer(g, r); w.Body.String() != user+"+"+user {
						t.Fatalf("got %q", w.Body)
					}
				}
			})
		}
	})
}

func BenchmarkGuard(b *testing.B) {
	for _, c := range []struct{ name, limit string }{{"allowed", "1000000000/min"}, {"denied", "1/day"}} {
		b.Run(c.name, func(b *testing.B) {
			var t testing.T
			g := newGuard(&t, "  - {name: a, by: ip, limits: "+c.limit+"}", func(http.ResponseWriter, *http.Request) {}, httplimit.Options{})
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/", nil)
			b.ReportAllocs()
			for b.Loop() {
				g.ServeHTTP(httptest.NewRecorder(), r)
			}
		})
	}
}
