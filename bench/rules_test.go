// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// BenchmarkRules measures which of many rules a request matches: rules that
// differ in path, host, header and network, of which a request matches four.
func BenchmarkRules(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprintf("n=%d/who=sluice", n), func(b *testing.B) {
			p, err := policy.Compile(differing(n))
			if err != nil {
				b.Fatal(err)
			}
			request := (&policy.Request{
				Method: "GET", Host: "tenant502.example.com", Path: "/v1/service500/77/items",
				Headers: map[string][]string{"X-Partner": {"partner503"}}, Client: netip.MustParseAddr("10.1.248.9"),
			}).Attributes()
			var m policy.Matches
			b.ReportAllocs()
			start := processTime(b)
			b.ResetTimer()
			for b.Loop() {
				p.Match(request, &m)
			}
			b.StopTimer()
			b.ReportMetric(float64(processTime(b)-start)/float64(b.N), "cpu-ns/op")
			if m.Len() != 4 {
				b.Fatalf("%d rules match, want 4", m.Len())
			}
		})
	}
}

func differing(n int) []policy.Rule {
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
		rules[i] = policy.Rule{Name: fmt.Sprintf("rule%d", i), Match: m, Levels: []policy.Level{{
			By: []policy.Part{policy.IP()}, Limits: []policy.Limit{{Limit: sluice.PerMinute(100)}},
		}}}
	}
	return rules
}
