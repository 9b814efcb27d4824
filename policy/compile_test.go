// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// Each rule has faults that must be reported with their field, and no others.
func TestCompileFaults(t *testing.T) {
	prefixes := func(texts ...string) (ps []netip.Prefix) {
		for _, text := range texts {
			ps = append(ps, netip.MustParsePrefix(text))
		}
		return ps
	}
	tests := []struct {
		name   string
		change func(*policy.Rule)
		want   []string // field: beginning of the problem
	}{
		{"name", func(r *policy.Rule) { r.Name = "A b" }, []string{`Name: "A b" must be`}},
		{"no name", func(r *policy.Rule) { r.Name = "" }, []string{`Name: "" must be`}},
		{"no levels", func(r *policy.Rule) { r.Levels = nil }, []string{"Levels: 0 levels"}},
		{"levels without names", func(r *policy.Rule) { r.Levels = append(r.Levels, r.Levels[0]) }, []string{"Levels[0].Name: is empty", "Levels[1].Name: is empty"}},
		{"no limits", func(r *policy.Rule) { r.Levels[0].Limits = nil }, []string{"Levels[0].Limits: no limit"}},
		{"two faults of a limit", func(r *policy.Rule) {
			r.Levels[0].Limits[0].Limit = sluice.Limit{Quota: 1, Window: time.Second, Burst: 5, Algorithm: sluice.SlidingHistogram{Precision: 2}}
		}, []string{"Levels[0].Limits[0]: Burst:", "Levels[0].Limits[0]: Precision:"}},
		{"two limits of a name", func(r *policy.Rule) { r.Levels[0].Limits = limits("1/s", "2/s") }, []string{`Levels[0].Limits: two limits have the name "token-bucket.s"`}},
		{"units", func(r *policy.Rule) { r.Levels[0].Limits = limits("1/s", "1MB/min") }, []string{"Levels[0].Limits[1]: counts bytes"}},
		{"two soft limits", func(r *policy.Rule) {
			r.Levels[0].Limits = limits("soft 1/s grace 1/day", "soft 1/min grace 1/week")
		}, []string{"Levels[0].Limits[1]: a second soft limit"}},
		{"soft in shadow", func(r *policy.Rule) { r.Shadow, r.Levels[0].Limits = true, limits("soft 1/s grace 1/day") }, []string{"Levels[0].Limits[0]: a soft limit has no effect in a shadow rule"}},
		{"status of responses", func(r *policy.Rule) { r.When = &policy.When{Status: []policy.Status{{From: 200, To: 99}}} }, []string{"When.Status[0]: 200 to 99"}},
		{"no responses", func(r *policy.Rule) { r.When = &policy.When{} }, []string{"When: 0 statuses"}},
		{"answer", func(r *policy.Rule) { r.Status = 200 }, []string{"Status: 200"}},
		{"max wait", func(r *policy.Rule) { r.MaxWait = -1 }, []string{"MaxWait: -1ns"}},
		{"terms of a lease", func(r *policy.Rule) {
			r.Lease, r.Levels[0].Limits = &sluice.LeaseTerms{TTL: -1, Units: -1, Nodes: -1}, limits("100/s")
		}, []string{"Lease: a TTL of -1ns", "Lease: leases of -1 Units", "Lease: -1 Nodes"}},
		{"limits that are not leased", func(r *policy.Rule) {
			r.Lease = &sluice.LeaseTerms{}
			r.Levels[0].Limits = limits("10/s", "5/s burst 5 leaky-bucket", "9/min sliding-log count-denied", "lends: 100/s debt 9 next-waits", "given: 100/s credit 9 credit-for 1h")
			r.Levels[0].Candidates = []policy.Candidate{{Name: "c", Limits: []sluice.Limit{sluice.MustParseLimit("1/s")}}} // need not be
			r.Levels[0].Tiers = &policy.Tiers{By: policy.Header("X-Plan"), Limits: map[string][]policy.Limit{"pro": limits("1/s")}}
		}, []string{"Levels[0].Limits[1]: cannot be leased: delays requests", "Levels[0].Limits[2]: cannot be leased: counts denied", "Levels[0].Limits[3]: cannot be leased: has next-waits", "Levels[0].Limits[4]: cannot be leased: has credit", "Levels[0].Tiers.Limits[pro][0]: cannot be leased: its burst of 1 refills"}},
		{"soft and leased", func(r *policy.Rule) {
			r.Lease, r.Levels[0].Limits = &sluice.LeaseTerms{}, limits("soft 1/s grace 1/day")
		}, []string{"Levels[0].Limits[0]: a soft limit cannot be leased"}},
		{"leased in vain", func(r *policy.Rule) {
			r.Levels[0].Limits = limits("100/s")
			r.Lease, r.MaxWait, r.When = &sluice.LeaseTerms{}, time.Second, &policy.When{Status: []policy.Status{policy.Class(4)}}
		}, []string{"Lease: the rule counts by the response", "Lease: requests that may wait"}},
		{"leased and charged afterwards", func(r *policy.Rule) {
			r.Lease, r.Cost, r.Levels[0].Limits = &sluice.LeaseTerms{}, policy.Cost{Of: policy.ResponseBytes}, limits("1MB/s")
		}, []string{"Lease: the cost is known after"}},
		{"leased and shaped", func(r *policy.Rule) {
			r.Lease, r.Shape, r.Cost, r.Levels[0].Limits = &sluice.LeaseTerms{}, true, policy.Cost{Of: policy.RequestBytes}, limits("1MB/s")
		}, []string{"Lease: a rule that shapes"}},
		{"leased levels", func(r *policy.Rule) {
			r.Lease, r.Levels[0].Limits = &sluice.LeaseTerms{}, limits("100/s")
			r.Levels = append(r.Levels, r.Levels[0])
			r.Levels[0].Name, r.Levels[1].Name = "a", "b"
		}, []string{"Lease: levels are charged together"}},
		{"lease of requests in flight", func(r *policy.Rule) {
			r.Lease, r.Levels[0].Limits, r.Levels[0].InFlight = &sluice.LeaseTerms{}, nil, &sluice.SlotLimit{Cap: 1}
		}, []string{"Lease: the rule limits requests in flight only"}},
		{"held for an instant", func(r *policy.Rule) { r.HoldFor, r.Cost = time.Millisecond, policy.Cost{Of: policy.Milliseconds} }, []string{"HoldFor: 1ms must be 1s to 24h"}},
		{"held for days", func(r *policy.Rule) { r.HoldFor, r.Cost = 25*time.Hour, policy.Cost{Of: policy.Milliseconds} }, []string{"HoldFor: 25h0m0s must be 1s to 24h"}},
		{"held though it is known", func(r *policy.Rule) { r.HoldFor = time.Minute }, []string{"HoldFor: the cost is known on arrival"}},
		{"held while it is read", func(r *policy.Rule) {
			r.HoldFor, r.Cost, r.Levels[0].Limits = time.Minute, policy.Cost{Of: policy.RequestBytes}, limits("1MB/s")
		}, []string{"HoldFor: the bytes of requests"}},
		{"held and charged afterwards", func(r *policy.Rule) {
			r.HoldFor, r.Cost, r.When = time.Minute, policy.Cost{Of: policy.Milliseconds}, &policy.When{Status: []policy.Status{policy.Class(4)}}
		}, []string{"HoldFor: nothing is charged before the response"}},
		{"held and delayed", func(r *policy.Rule) {
			r.HoldFor, r.Cost, r.MaxWait = time.Minute, policy.Cost{Of: policy.Milliseconds}, time.Second
		}, []string{"HoldFor: requests that may wait"}},
		{"failure", func(r *policy.Rule) { r.Failure = 9 }, []string{"Failure: Failure(9)"}},
		{"missing", func(r *policy.Rule) { r.Levels[0].Missing = 9 }, []string{"Levels[0].Missing: Missing(9)"}},
		{"cost of a header", func(r *policy.Rule) { r.Cost = policy.Cost{Of: policy.RequestHeader, Header: "a b"} }, []string{`Cost: "a b" is not`, "Cost: most 0"}},
		{"cost that is negative", func(r *policy.Rule) { r.Cost.Units = -1 }, []string{"Cost: -1 units"}},
		{"cost with a stray header", func(r *policy.Rule) { r.Cost.Header = "X" }, []string{"Cost: only the cost of a header"}},
		{"part", func(r *policy.Rule) {
			r.Levels[0].By = []policy.Part{{}, policy.Header(""), {Source: source.IP, Name: "x"}, policy.Network(40, 200), policy.IP(), policy.IP()}
		}, []string{
			"Levels[0].By[0]: is not a part", "Levels[0].By[1]: header lacks a name", "Levels[0].By[2]: ip has no name",
			"Levels[0].By[3]: IPv4Bits", "Levels[0].By[5]: ip is a part of the key already",
		}},
		{"every path excepted", func(r *policy.Rule) { r.Match.Except = []string{"/"} }, []string{`Match.Except[0]: "/" excepts every path`}},
		{"its path excepted", func(r *policy.Rule) { r.Match.Paths, r.Match.Except = []string{"/a/b", "/c"}, []string{"/a/"} }, []string{`Match.Paths[0]: "/a/b" can never match`}},
		{"networks all exempt", func(r *policy.Rule) {
			r.Match.Networks, r.ExemptNetworks = prefixes("10.1.0.0/16", "11.0.0.0/8"), prefixes("10.0.0.0/8")
		}, []string{"Match.Networks[0]: can never match"}},
		{"everyone exempt", func(r *policy.Rule) { r.ExemptNetworks = prefixes("::/0", "0.0.0.0/0") }, []string{"ExemptNetworks: exempt every address"}},
		{"everyone exempt, in halves", func(r *policy.Rule) { r.ExemptNetworks = prefixes("8000::/1", "::/1", "0.0.0.0/0") }, []string{"ExemptNetworks: exempt every address"}},
		{"in flight", func(r *policy.Rule) { r.Levels[0].InFlight = &sluice.SlotLimit{Name: "Z", Cap: 0} }, []string{"Levels[0].InFlight: sluice: limit: Name", "Levels[0].InFlight: sluice: limit: Cap"}},
		{"override", func(r *policy.Rule) {
			r.Levels[0].By = by(policy.IP())
			o := policy.Override{Key: []string{"192.0.2.1"}, Limits: limits("1/s"), Reason: "r", Author: "a"}
			r.Levels[0].Overrides = []policy.Override{o, o, {Key: []string{""}, Limits: limits("1/s")}}
		}, []string{"Levels[0].Overrides[1].Key: has an override", "Levels[0].Overrides[2].Reason:", "Levels[0].Overrides[2].Author:", "Levels[0].Overrides[2].Key: an empty value"}},
		{"candidates", func(r *policy.Rule) {
			r.Levels[0].Candidates = []policy.Candidate{{Name: "a", Limits: []sluice.Limit{sluice.PerMinute(1)}}, {Name: "a"}}
		}, []string{`Levels[0].Candidates[1].Name: "a" is the name`, "Levels[0].Candidates[1].Limits: no limit"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := one("rule", nil, "1/s")
			test.change(&r)
			_, err := policy.Compile([]policy.Rule{r})
			var faults policy.RuleErrors
			if !errors.As(err, &faults) || len(faults) != len(test.want) {
				t.Fatalf("got\n%v\nwant\n%s", err, strings.Join(test.want, "\n"))
			}
			for i, f := range faults {
				if got := strings.SplitN(policy.RuleErrors{f}.Error(), ": ", 3)[2]; !strings.HasPrefix(got, test.want[i]) {
					t.Errorf("got %s, want %s", got, test.want[i])
				}
			}
		})
	}
}

func TestCompileReportsAllRules(t *testing.T) {
	bad := one("Bad", nil, "1/s")
	_, err := policy.Compile([]policy.Rule{one("a", nil, "1/s"), bad, one("a", nil, "1/s"), bad})
	var faults policy.RuleErrors
	if !errors.As(err, &faults) || len(faults) != 3 || faults[0].Rule != 1 || faults[1].Rule != 2 || faults[2].Rule != 3 {
		t.Fatalf("faults %v", err)
	}
}

// No request may be charged more than a store can decide at once.
func TestCrowds(t *testing.T) {
	var rules []policy.Rule
	for i := range sluice.MaxCharges {
		rules = append(rules, one(fmt.Sprint("all-", i), nil, "1/s"))
	}
	if _, err := policy.Compile(rules); err != nil {
		t.Fatal(err)
	}
	special := rule("special", policy.Match{
		Methods: []string{"POST"}, Hosts: []string{"*.example.com"}, Paths: []string{"/a/{b}/{c...}"},
		Headers: []policy.Field{{Name: "X-A", Values: []string{"1"}}, {Name: "X-B"}}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
	})
	_, err := policy.Compile(append(rules, special))
	if err == nil || !strings.Contains(err.Error(), "17 levels of rules at once") || !strings.Contains(err.Error(), "all-15, special") {
		t.Errorf("error %v", err)
	}
	special.Shadow = true
	if _, err := policy.Compile(append(rules, special)); err != nil {
		t.Errorf("a shadow rule is asked by itself: %v", err)
	}
}

func TestCompileKeepsTheRules(t *testing.T) {
	r := rule("a", policy.Match{Hosts: []string{"EXAMPLE.com."}, Headers: []policy.Field{{Name: "x-a"}}, Networks: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8")}})
	r.Levels[0].By = by(policy.Header("x-user"))
	p := compile(t, r)
	if r.Match.Hosts[0] != "EXAMPLE.com." || r.Match.Headers[0].Name != "x-a" || r.Match.Networks[0].String() != "10.1.2.3/8" || r.Levels[0].By[0].Name != "x-user" {
		t.Errorf("compiling has changed the rule: %+v", r)
	}
	again := compile(t, p.Rules()...)
	if got, want := fmt.Sprintf("%+v", again.Rules()), fmt.Sprintf("%+v", p.Rules()); got != want {
		t.Errorf("compiled again\n%s, want\n%s", got, want)
	}
}

func TestParsePart(t *testing.T) {
	for text, want := range map[string]policy.Part{
		"ip": policy.IP(), "ip/24/48": policy.Network(24, 48), "header.X-User": policy.Header("X-User"), "query.a.b": policy.Query("a.b"),
		"cookie.s": policy.Cookie("s"), "path.id": policy.Path("id"), "claim.sub": policy.Claim("sub"), "host": policy.Host(),
	} {
		got, err := policy.ParsePart(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "IP", "ip.", "ip/24", "ip/0/64", "ip/33/64", "ip/24/129", "ip/024/64", "ip/24/64 ", "header", "header.", "host.x", "user"} {
		if p, err := policy.ParsePart(text); err == nil {
			t.Errorf("%q is %v", text, p)
		}
	}
}
