// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

func shaping(limits ...string) policy.Rule {
	r := policy.Rule{Name: "down", Cost: policy.Cost{Of: policy.ResponseBytes}, Shape: true, Levels: []policy.Level{{By: []policy.Part{policy.IP()}}}}
	for _, l := range limits {
		r.Levels[0].Limits = append(r.Levels[0].Limits, policy.Limit{Limit: sluice.MustParseLimit(l)})
	}
	return r
}

// TestShapes: a rule that shapes charges nothing and denies nothing; the verdict returns the
// charges of the request's bytes.
func TestShapes(t *testing.T) {
	slow := shaping("1000B/s burst 1000")
	slow.MaxWait = 5 * time.Second
	slow.ExemptNetworks = []netip.Prefix{netip.MustParsePrefix("192.0.2.9/32")}
	slow.Levels[0].Overrides = []policy.Override{{
		Key: []string{"192.0.2.7"}, Reason: "x", Author: "x", Limits: []policy.Limit{{Limit: sluice.MustParseLimit("5MB/s")}},
	}}
	up := shaping("1MB/s")
	up.Name, up.Cost.Of = "up", policy.RequestBytes
	requests := policy.Rule{Name: "requests", Levels: []policy.Level{{Limits: []policy.Limit{{Limit: sluice.MustParseLimit("2/min")}}}}}
	p, err := policy.Compile([]policy.Rule{slow, up, requests})
	if err != nil {
		t.Fatal(err)
	}
	store := memstore.New(memstore.Options{})
	e := evaluate.Plain{Policy: p, Store: store}
	var v evaluate.Verdict
	shapes := func() (got []string) {
		for _, s := range v.Shapes {
			got = append(got, fmt.Sprintf("%s %s %v %v", s.Rule.Name, s.Charge.Key, s.Charge.Plan.Term(0).Quota, s.MaxWait))
		}
		return got
	}
	for _, c := range []struct {
		from    string
		allowed bool
		want    []string
	}{
		{"192.0.2.1", true, []string{"down 192.0.2.1 1000 5s", "up 192.0.2.1 1000000 1m0s"}},
		{"192.0.2.7", true, []string{"down 192.0.2.7 5000000 5s", "up 192.0.2.7 1000000 1m0s"}},
		{"192.0.2.9", false, []string{"up 192.0.2.9 1000000 1m0s"}},
	} {
		e.Decide(t.Context(), (&policy.Request{Path: "/", Client: netip.MustParseAddr(c.from)}).Attributes(), &v)
		if got := shapes(); v.Allowed != c.allowed || !slices.Equal(got, c.want) {
			t.Errorf("%s: allowed %v, shapes %q; want %v, %q", c.from, v.Allowed, got, c.allowed, c.want)
		}
		for o := range v.Outcomes() {
			if o.Rule.Shape {
				t.Errorf("%s: rule %s was charged", c.from, o.Rule.Name)
			}
		}
		if err := v.Settle(t.Context(), policy.Response{Status: 200, Written: 1 << 20}); err != nil {
			t.Error(err)
		}
	}
	e.Decide(t.Context(), (&policy.Request{Path: "/"}).Attributes(), &v)
	if got := shapes(); v.Refused == nil || v.Allowed || got != nil {
		t.Errorf("without an address: refused %v, allowed %v, shapes %q", v.Refused, v.Allowed, got)
	}
}

// TestShapeRefuses: all options that make no sense beside shape are reported.
func TestShapeRefuses(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*policy.Rule)
		limits []string
		want   string
	}{
		{"any bucket", nil, []string{"1MB/s", "10MB/s leaky-bucket burst 1MB", "100KB/min burst 100KB"}, ""},
		{"short windows", nil, []string{"1MB/s fixed-window", "100MB/min sliding-histogram"}, ""},
		{"requests", func(r *policy.Rule) { r.Cost = policy.Cost{} }, []string{"1/s"}, "Shape: slows bodies down"},
		{"shadow", func(r *policy.Rule) { r.Shadow = true }, []string{"1MB/s"}, "Shape: slows down"},
		{"when", func(r *policy.Rule) { r.When = &policy.When{Status: []policy.Status{policy.Code(200)}} }, []string{"1MB/s"}, "Shape: slows down bytes before"},
		{"status", func(r *policy.Rule) { r.Status = 503 }, []string{"1MB/s"}, "Status: "},
		{"in flight", func(r *policy.Rule) { r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 1} }, []string{"1MB/s"}, "InFlight: denies"},
		{"candidates", func(r *policy.Rule) {
			r.Levels[0].Candidates = []policy.Candidate{{Name: "x", Limits: []sluice.Limit{sluice.MustParseLimit("1MB/s")}}}
		}, []string{"1MB/s"}, "Candidates: "},
		{"soft", func(r *policy.Rule) {
			g := sluice.MustParseLimit("1MB/s")
			r.Levels[0].Limits[0].Grace = &g
		}, []string{"1MB/s"}, "a soft limit has no effect in a rule with shape"},
		{"a long window", nil, []string{"1MB/s", "1GB/h fixed-window"}, "Limits[1]: 1GB/hour fixed-window may hold bytes back for 1h0m0s"},
		{"a longer wait", func(r *policy.Rule) { r.MaxWait = time.Hour }, []string{"1GB/h fixed-window"}, ""},
		{"a bucket that drips", nil, []string{"1KB/day"}, "may hold bytes back for 6h"},
		{"byte by byte", nil, []string{"1MB/s burst 100"}, "grants at most 100 bytes at once"},
		{"debt", nil, []string{"1MB/s debt 1MB"}, "has a debt"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := shaping(c.limits...)
			if c.change != nil {
				c.change(&r)
			}
			_, err := policy.Compile([]policy.Rule{r})
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var faults policy.RuleErrors
			if !errors.As(err, &faults) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
