// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/config"
)

// manyRules returns a file of rules that differ in path, host, header and network, like the
// group reload of bench/cmd/gateway.
func manyRules(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: 127.0.0.1:1\nadmin: \"off\"\nupstream: http://127.0.0.1:9\nrules:\n")
	for i := range n {
		var match string
		switch i % 5 {
		case 0:
			match = fmt.Sprintf("path: \"/v1/service%d/{id}/items\"", i)
		case 1:
			match = fmt.Sprintf("path: /v1/service%d/", i)
		case 2:
			match = fmt.Sprintf("host: tenant%d.example.com, path: /v1/", i)
		case 3:
			match = fmt.Sprintf("header: {X-Partner: partner%d}", i)
		case 4:
			match = fmt.Sprintf("network: 10.%d.%d.0/24", i>>8, i&0xff)
		}
		fmt.Fprintf(&b, "  - name: rule%d\n    match: {method: [GET, POST], %s}\n    by: ip\n    limits: 1000000/s\n", i, match)
	}
	return b.String()
}

// BenchmarkParse reads and compiles 10,000 rules: most of what a reload costs.
func BenchmarkParse(b *testing.B) {
	text := []byte(manyRules(10_000))
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, err := config.Parse("x.yaml", text); err != nil {
			b.Fatal(err)
		}
	}
}
