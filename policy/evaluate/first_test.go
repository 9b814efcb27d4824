// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// TestFirstOfBadParts: a part that cannot be used is refused and not treated as missing: the
// next part may be a fresh budget.
func TestFirstOfBadParts(t *testing.T) {
	rule := func(parts ...policy.Part) policy.Rule {
		return policy.Rule{Name: "r", Levels: []policy.Level{{By: []policy.Part{policy.First(parts...)}, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}
	}
	ip := netip.MustParseAddr("192.0.2.1")
	for _, c := range []struct {
		name string
		by   policy.Part
		a    policy.Request
		want string // the fault, or the key
	}{
		{"a field twice", policy.Header("User"), policy.Request{Headers: map[string][]string{"User": {"a", "b"}}}, "header User is sent more than once; send it once"},
		{"a field that is too long", policy.Header("User"), policy.Request{Headers: map[string][]string{"User": {strings.Repeat("a", bounds.MaxValueBytes+1)}}}, "header User is longer than 8192 bytes"},
		{"an empty field", policy.Header("User"), policy.Request{Headers: map[string][]string{"User": {""}}}, "2:192.0.2.1"},
		{"no field", policy.Header("User"), policy.Request{}, "2:192.0.2.1"},
		{"a token that cannot be used", policy.Claim("sub"), policy.Request{Token: &policy.TokenError{Problem: "the token has expired"}}, "claim sub: the token has expired"},
		{"a token that is required", policy.Claim("sub"), policy.Request{Token: &policy.TokenError{Problem: "a token is needed", Missing: true}}, "claim sub: a token is needed"},
		{"a token without the claim", policy.Claim("sub"), policy.Request{Claims: map[string]string{}}, "2:192.0.2.1"},
		{"a path that is read in two ways", policy.Segment(1), policy.Request{Path: "/a%2Fb"}, "path 1 has an escaped slash or is not well-formed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.a.Method, c.a.Client = "GET", ip
			if c.a.Path == "" {
				c.a.Path = "/"
			}
			v := decide(t, rule(c.by, policy.IP()), c.a.Attributes())
			got := ""
			if o, ok := v.Binding(nil); ok {
				got = o.Key
			} else if v.Refused != nil {
				got = v.Refused.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// Values of two sources never make one key, and a shown key names its part and value.
func TestFirstKeysDiffer(t *testing.T) {
	first := policy.First(policy.Header("User"), policy.Header("Device"), policy.IP())
	parts := first.Parts()
	p, err := policy.Compile([]policy.Rule{{Name: "r", Levels: []policy.Level{{By: []policy.Part{first, policy.Query("q")}, Missing: policy.Share, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	level := &p.Levels(0)[0]
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SampledFrom([]string{"192.0.2.1", "2:192.0.2.1", "1:a", "a", "header.Device=a", "ip=192.0.2.1", "a|b", "%7C", "3:", ":"})
		seen := map[string]string{}
		for range 2 {
			i := rapid.IntRange(0, 1).Draw(t, "part")
			value := text.Draw(t, "value")
			_, values, err := level.Key([]string{parts[i].String() + "=" + value, ""})
			if err != nil {
				t.Fatal(err)
			}
			if of, shown := first.Of(values[0]); of != parts[i] || shown != value {
				t.Errorf("%q is shown as %v=%s, want %v=%s", values[0], of, shown, parts[i], value)
			}
			_, again, err := level.Key(values)
			if err != nil || again[0] != values[0] {
				t.Errorf("%q is read as %q (%v)", values, again, err)
			}
			source := fmt.Sprintf("%d %s", i, value)
			if before, ok := seen[values[0]]; ok && before != source {
				t.Errorf("%s and %s are one key, %q", before, source, values[0])
			}
			seen[values[0]] = source
		}
	})
	for text, want := range map[string]string{
		"ip=2001:db8::1": "3:2001:db8::/64", "header.user=a=b": "1:a=b",
		"ada":      `header.User or header.Device or ip: "ada" is not clear, as the key has several parts; use for example header.User=VALUE`,
		"ip=home":  `header.User or header.Device or ip: ip: "home" is not an address; use one such as 192.0.2.7`,
		"4:a":      `header.User or header.Device or ip: "4:a" is not clear, as the key has several parts; use for example header.User=VALUE`,
		"01:a":     `header.User or header.Device or ip: "01:a" is not clear, as the key has several parts; use for example header.User=VALUE`,
		"ip=":      `header.User or header.Device or ip: an empty value of ip; no request has one, as it counts as missing`,
		"3:2001::": "3:2001::/64",
	} {
		_, values, err := level.Key([]string{text, ""})
		got := values[0]
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
