// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// A written value becomes the value of requests, or is refused.
func TestPartValue(t *testing.T) {
	method := policy.Part{Source: source.Method}
	tests := []struct {
		part       policy.Part
		text, want string // want beginning with a colon is part of the error
	}{
		{policy.IP(), "192.0.2.7", "192.0.2.7"},
		{policy.IP(), "192.0.2.7/32", "192.0.2.7"},
		{policy.IP(), "::ffff:192.0.2.7", "192.0.2.7"},
		{policy.IP(), "2001:db8::9", "2001:db8::/64"},
		{policy.IP(), "2001:DB8:0::/64", "2001:db8::/64"},
		{policy.IP(), "2001:db8::/48", ":such as 2001:db8::/64"},
		{policy.IP(), "127.0.0.0/8", ":such as 127.0.0.0"},
		{policy.IP(), "64:ff9b::8.8.8.8", "8.8.8.8"},
		{policy.IP(), "192.0.2.007", ":is not an address; use one such as 192.0.2.7"},
		{policy.IP(), "not-an-ip", ":is not an address"},
		{policy.Network(24, 48), "192.0.2.7", "192.0.2.0/24"},
		{policy.Network(24, 48), "192.0.2.0/24", "192.0.2.0/24"},
		{policy.Network(24, 48), "::ffff:192.0.2.0/120", "192.0.2.0/24"},
		{policy.Network(24, 48), "192.0.2.7/32", ":such as 192.0.2.0/24"},
		{policy.Network(24, 48), "2001:db8:0:1::/64", ":such as 2001:db8::/48"},
		{policy.Network(24, 128), "2001:db8::9", "2001:db8::9"},
		{policy.Network(40, 200), "192.0.2.7", ":IPv4Bits"},
		{policy.Host(), "API.example.com.", "api.example.com"},
		{policy.Host(), "api.example.com:80", `:use "api.example.com"`},
		{policy.Host(), "[0:0::1]", "[::1]"},
		{policy.Host(), "::1", "[::1]"},
		{policy.Host(), "[::1]:80", `:use "[::1]"`},
		{policy.Host(), "*.example.com", ":is not a host"},
		{policy.Host(), "http://example.com", ":is not a host"},
		{policy.Cookie("sid"), "%61+b", "a b"},
		{policy.Header("host"), "API.example.com", "api.example.com"},
		{policy.Header("X-User"), "Ada", "Ada"},
		{policy.Header("X-User"), strings.Repeat("x", bounds.MaxValueBytes+1), ":bytes; requests with more"},
		{method, "get", "GET"},
		{method, "GET /", ":is not a method"},
	}
	for _, test := range tests {
		t.Run(test.part.String()+" "+test.text[:min(len(test.text), 40)], func(t *testing.T) {
			got, err := test.part.Value(test.text)
			if problem, bad := strings.CutPrefix(test.want, ":"); bad {
				if err == nil || !strings.Contains(err.Error(), problem) {
					t.Fatalf("got %q, error %v, want %q", got, err, problem)
				}
				return
			}
			if err != nil || got != test.want {
				t.Fatalf("got %q, %v, want %q", got, err, test.want)
			}
			if again, err := test.part.Value(got); err != nil || again != got {
				t.Errorf("%q again: got %q, %v", got, again, err)
			}
		})
	}
}

// Two texts of one key are one key, and values that no request has are a fault.
func TestKeysThatNeverMatch(t *testing.T) {
	r := one("api", by(policy.Host(), policy.IP()), "1/s")
	l := &r.Levels[0]
	for _, address := range []string{"2001:db8::1", "2001:db8::2"} {
		l.Overrides = append(l.Overrides, policy.Override{Key: []string{"x", address}, Limits: limits("1/s"), Reason: "r", Author: "a"})
	}
	l.ExemptKeys = [][]string{{"x:80", "10.0.0.0/8"}, {"x"}, {"", "192.0.2.1"}}
	l.Tiers = &policy.Tiers{By: policy.Host(), Limits: map[string][]policy.Limit{"A": limits("1/s"), "b:1": limits("1/s"), "c": limits("1/s")}}
	_, err := policy.Compile([]policy.Rule{r})
	want := []string{
		`Levels[0].Tiers.Limits[A]: host: no request has "A"; use "a"`,
		`Levels[0].Tiers.Limits[b:1]: host: "b:1" has a port, which is no part of a key; use "b"`,
		"Levels[0].Overrides[1].Key: has an override already; a key has one",
		`Levels[0].ExemptKeys[0]: host: "x:80" has a port, which is no part of a key; use "x"`,
		`Levels[0].ExemptKeys[0]: ip: "10.0.0.0/8" is not a network that shares a budget; use one such as 10.0.0.0`,
		"Levels[0].ExemptKeys[1]: a key of 1 values; the level's key has 2: [host ip]",
		"Levels[0].ExemptKeys[2]: an empty value of host; no request has one, as it counts as missing",
	}
	faults, ok := err.(policy.RuleErrors) //nolint:errorlint // Compile returns it unwrapped
	if !ok || len(faults) != len(want) {
		t.Fatalf("got\n%v", err)
	}
	for i, f := range faults {
		if got := strings.SplitN(policy.RuleErrors{f}.Error(), ": ", 3)[2]; got != want[i] {
			t.Errorf("got %s, want %s", got, want[i])
		}
	}
	long := slices.Repeat([]string{strings.Repeat("x", bounds.MaxValueBytes)}, bounds.MaxParts)
	var parts []policy.Part
	for i := range bounds.MaxParts {
		parts = append(parts, policy.Header(fmt.Sprint("A", i)))
	}
	wide := &compile(t, one("wide", parts, "1/s")).Levels(0)[0]
	if _, _, err := wide.Key(long); err == nil || !strings.Contains(err.Error(), "are refused") {
		t.Errorf("a key of 64 KiB and 7 bytes: error %v", err)
	}
}
