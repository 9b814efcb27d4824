// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/policy"
)

func TestWildcardsMakeKeys(t *testing.T) {
	r := one("files", by(policy.Path("owner"), policy.Path("rest")), "9/min fixed-window")
	r.Match.Paths = []string{"/u/{owner}/{rest...}", "/v/{rest...}"}
	if _, err := policy.Compile([]policy.Rule{r}); err == nil || !strings.Contains(err.Error(), "/v/{rest...} has no wildcard {owner}") {
		t.Errorf("error %v", err)
	}
	r.Match.Paths = r.Match.Paths[:1]
	tests := []struct{ path, owner, rest string }{
		{"/u/ada/x", "ada", "x"},
		{"/u/ada/x/y", "ada", "x/y"},
		{"/u/a%7Cb/x/y/", "a|b", "x/y/"},
		{"/u/50%25/x%2Fy", "50%", "x/y"},
		{"//u/./bob//z", "bob", "z"},
	}
	for _, test := range tests {
		t.Run(test.path, func(t *testing.T) {
			w := newWorld(t, r)
			w.allow((&policy.Request{Path: test.path}).Attributes())
			if got := w.remaining("files", "", test.owner, test.rest); got[0] != 8 {
				t.Errorf("%d left of key %q, %q", got[0], test.owner, test.rest)
			}
		})
	}
}

// TestWildcardsOfTwoMinds: a request is refused if its key depends on how an upstream reads
// the path.
func TestWildcardsOfTwoMinds(t *testing.T) {
	r := one("users", by(policy.Path("id")), "9/min fixed-window")
	r.Match.Paths = []string{"/users/{id}", "/users/{id}/"}
	for _, test := range []struct{ path, key string }{
		{"/users/u1/cart", "u1"},
		{"/users/u1/a%2Fb", "u1"},
		{"/users/a%2Fb", ""}, // below a, or a%2Fb itself
		{"/users/u1/..%2Fu2/cart", ""},
		{"/users/u1%2Fx/cart", ""},
		{"/users/u1%5Cx/cart", ""},
		{"/users%2Fu1/cart", "u1"}, // in the one reading that matches
	} {
		t.Run(test.path, func(t *testing.T) {
			w := newWorld(t, r)
			v := w.decide((&policy.Request{Path: test.path}).Attributes())
			if test.key == "" {
				if v.Allowed || v.Refused == nil || !strings.Contains(v.Refused.Problem, "escaped slash") {
					t.Errorf("allowed %v, refused %v; want a refusal of the path", v.Allowed, v.Refused)
				}
				return
			}
			if got := w.remaining("users", "", test.key); !v.Allowed || got[0] != 8 {
				t.Errorf("allowed %v, %d left of key %q", v.Allowed, got[0], test.key)
			}
		})
	}
}

func TestKeysCannotCollide(t *testing.T) {
	values := []string{"a", "b", "|", "%", "a|", "|b", "%7C", "a%7C", "%25", "a|b", ""}
	keys := map[string][2]string{}
	r := one("api", by(policy.Header("A"), policy.Header("B")), "1/min")
	r.Levels[0].Missing = policy.Share
	p := compile(t, r)
	for _, a := range values {
		for _, b := range values {
			c := chargeOf(t, p, "api", "", a, b)
			if other, taken := keys[c.Key]; taken {
				t.Errorf("%q and %q make the key %q", other, [2]string{a, b}, c.Key)
			}
			keys[c.Key] = [2]string{a, b}
		}
	}
}

func TestAddressesShareABudgetByNetwork(t *testing.T) {
	w := newWorld(t, one("a", by(policy.IP()), "1/min"), one("b", by(policy.Network(24, 48)), "2/min"))
	w.allow(from("2001:db8:0:1::1"))
	if v := w.decide(from("2001:db8:0:1::2")); v.Allowed {
		t.Error("two addresses of a /64 do not share a budget")
	}
	w.allow(from("2001:db8:0:2::1"))
	if v := w.decide(from("2001:db8:0:3::1")); v.Allowed {
		t.Error("two networks of a /48 do not share a budget")
	}
	w.allow(from("192.0.2.1"))
	w.allow(from("::ffff:192.0.2.2"))
	if v := w.decide(from("192.0.2.3")); v.Allowed {
		t.Error("addresses of a /24 do not share a budget")
	}
}
