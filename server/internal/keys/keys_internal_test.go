// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/policy"
)

// A key means every level that can have it. The error for a key that no level can have
// says why.
func TestTargets(t *testing.T) {
	rule := func(name string, missing policy.Missing, by ...policy.Part) policy.Rule {
		return policy.Rule{Name: name, Levels: []policy.Level{{By: by, Missing: missing, Limits: []policy.Limit{{Limit: sluice.PerMinute(1)}}}}}
	}
	plans := rule("plans", policy.Refuse, policy.Claim("sub"))
	plans.Levels[0].Tiers = &policy.Tiers{By: policy.Host(), Limits: map[string][]policy.Limit{"a.example": plans.Levels[0].Limits}}
	p, err := policy.Compile([]policy.Rule{
		rule("ip", policy.Refuse, policy.IP()), rule("net", policy.Refuse, policy.Network(24, 48)),
		rule("host", policy.Refuse, policy.Host()),
		rule("user", policy.Refuse, policy.Header("X-User")), rule("shared", policy.Share, policy.Header("X-User")),
		rule("both", policy.Share, policy.Header("X-User"), policy.IP()), plans,
		rule("first", policy.Share, policy.First(policy.Claim("id"), policy.Header("x-device"), policy.Query("q"))),
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, rule, parts, want string }{
		{"address", "", "ip=192.0.2.7", "ip 192.0.2.7, net 192.0.2.0/24"},
		{"its network", "", "ip=192.0.2.0/24", "net 192.0.2.0/24"},
		{"its network, of the rule", "net", "ip=192.0.2.0/24", "net 192.0.2.0/24"},
		{"a network of many keys", "ip", "ip=127.0.0.0/8", `rule "ip": ip: "127.0.0.0/8" is not a network that shares a budget`},
		{"a network of no key", "", "ip=127.0.0.0/8", `rule "ip": ip: "127.0.0.0/8" is not a network that shares a budget`},
		{"host", "", "host=A.example", "host a.example"},
		{"host with a port", "", "host=a.example:80", "has a port"},
		{"plan", "", "claim.sub=x host=A.example", "host a.example, plans x as a.example"},
		{"plan by a host with a port", "plans", "claim.sub=x host=a.example:80", "has a port"},
		{"the first of several", "", "claim.id=ada", "first 1:ada"},
		{"another of several", "first", "header.X-Device=d1", "first 2:d1"},
		{"two of several", "first", "claim.id=ada header.X-Device=d1", "no key is made of header.X-Device"},
		{"none of several", "first", "claim.id=", "first "},
		{"another part", "first", "ip=192.0.2.7", "claim.id=… or header.X-Device=… or query.q=…"},
		{"none, which a rule shares", "", "header.X-User=", "shared "},
		{"none of one part", "", "header.X-User= ip=2001:db8::1", "ip 2001:db8::/64, net 2001:db8::/48, shared , both |2001:db8::/64"},
		{"none, of a rule that refuses it", "user", "header.X-User=", "an empty value of header.X-User"},
		{"one of two is none", "", "header.X-User=a ip=home", `ip: "home" is not an address`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			k := Key{Rule: test.rule, Parts: make(map[string]string)}
			for part := range strings.FieldsSeq(test.parts) {
				name, value, _ := strings.Cut(part, "=")
				k.Parts[name] = value
			}
			targets, _, err := k.Targets(p, nil)
			if err != nil {
				testkit.Contains(t, err.Error(), test.want)
				return
			}
			var got []string
			for _, at := range targets {
				text := fmt.Sprint(at.Rule.Name, " ", strings.Join(at.Values, "|"))
				if at.Tier != "" {
					text += " as " + at.Tier
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}
