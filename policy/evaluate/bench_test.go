// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/sluicegate/sluice/internal/wire"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// mixed returns n rules that differ in path, host, header and network.
func mixed(n int) []policy.Rule {
	rules := make([]policy.Rule, n)
	for i := range rules {
		m := policy.Match{Methods: []string{"GET", "POST"}}
		switch i % 5 {
		case 0:
			m.Paths = []string{fmt.Sprintf("/v1/service%d/{id}/items", i)}
		case 1:
			m.Paths = []string{fmt.Sprintf("/v1/service%d/", i)}
		case 2:
			m.Hosts, m.Paths = []string{fmt.Sprintf("tenant%d.example.com", i)}, []string{"/v1/"}
		case 3:
			m.Headers = []policy.Field{{Name: "X-Partner", Values: []string{fmt.Sprintf("partner%d", i)}}}
		case 4:
			m.Networks = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)}
		}
		rules[i] = rule(fmt.Sprintf("rule%d", i), m)
		rules[i].Levels[0].By = by(policy.IP())
	}
	return rules
}

func request() policy.Attributes {
	return (&policy.Request{
		Method: "GET", Host: "tenant502.example.com", Path: "/v1/service500/77/items",
		Headers: map[string][]string{"X-Partner": {"partner503"}}, Client: netip.MustParseAddr("10.1.248.9"),
	}).Attributes()
}

func BenchmarkMatch(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := compile(b, mixed(n)...)
			var m policy.Matches
			a := request()
			b.ReportAllocs()
			for b.Loop() {
				p.Match(a, &m)
			}
			if want := min(n, 1000) / 1000 * 4; m.Len() != want {
				b.Fatalf("%d rules match, want %d", m.Len(), want)
			}
		})
	}
}

func BenchmarkDecide(b *testing.B) {
	for name, rules := range map[string][]policy.Rule{
		"one":   {one("api", by(policy.Header("X-Partner")), "1000000/s")},
		"mixed": mixed(1000),
	} {
		b.Run(name, func(b *testing.B) {
			e := evaluate.Plain{Policy: compile(b, rules...), Store: memstore.New(memstore.Options{})}
			var v evaluate.Verdict
			a := request()
			b.ReportAllocs()
			for b.Loop() {
				e.Decide(b.Context(), a, &v)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rules := mixed(n)
			for b.Loop() {
				compile(b, rules...)
			}
		})
	}
}

func TestAllocations(t *testing.T) {
	e := evaluate.Plain{Policy: compile(t, one("api", by(policy.Header("X-Partner")), "1000000/s")), Store: memstore.New(memstore.Options{})}
	var v evaluate.Verdict
	a := request()
	e.Decide(t.Context(), a, &v)
	if got := testing.AllocsPerRun(100, func() { e.Decide(t.Context(), a, &v) }); got > 0 {
		t.Errorf("%v allocations for a request under one rule, want 0", got)
	}
	p := compile(t, mixed(1000)...)
	var m policy.Matches
	p.Match(a, &m)
	if got := testing.AllocsPerRun(100, func() { p.Match(a, &m) }); got > 0 {
		t.Errorf("%v allocations for a match among 1,000 rules, want 0", got)
	}
}

// TestQueryAllocates nothing for a parameter that is sent once and unescaped.
func TestQueryAllocates(t *testing.T) {
	e := evaluate.Plain{Policy: compile(t, one("api", by(policy.Query("userId")), "1000000/s")), Store: memstore.New(memstore.Options{})}
	r := httptest.NewRequest(http.MethodGet, "/?a=b&userId=u1&c=d", nil)
	var h wire.Attributes
	var v evaluate.Verdict
	got := testing.AllocsPerRun(200, func() {
		h.Reset(r, netip.Addr{}, nil)
		e.Decide(t.Context(), &h, &v)
		if o, ok := v.Binding(nil); !ok || o.Key != "u1" {
			t.Errorf("charged %+v, refused %v, want u1", o, v.Refused)
		}
	})
	if got != 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}
