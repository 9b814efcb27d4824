// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/server/internal/nginx"
)

// many returns a configuration of n zones, each used once: in locations of one server, in a
// server each, or all for one zone.
func many(shape string, n int) string {
	var b strings.Builder
	b.WriteString("http {\n")
	for i := range n {
		fmt.Fprintf(&b, "limit_req_zone $binary_remote_addr zone=z%d:1m rate=%dr/s;\n", i, i+1)
	}
	if shape != "servers" {
		b.WriteString("server {\n")
	}
	for i := range n {
		switch shape {
		case "locations":
			fmt.Fprintf(&b, "location /a%d/ { limit_req zone=z%d burst=5; }\n", i, i)
		case "nested":
			fmt.Fprintf(&b, "location /a%d/ { limit_req zone=z%d burst=5; location /a%d/b/ { limit_req zone=z%d; } }\n", i, i, i, i)
		case "servers":
			fmt.Fprintf(&b, "server { server_name h%d.example.com; limit_req zone=z%d burst=5; }\n", i, i)
		case "one zone":
			fmt.Fprintf(&b, "location /a%d/ { limit_req zone=z0 burst=%d; }\n", i, i+1)
		}
	}
	if shape != "servers" {
		b.WriteString("}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

var shapes = []string{"locations", "nested", "servers", "one zone"}

// TestManyZones: a configuration of hundreds of zones is converted like one of ten. The
// benchmark shows how the work grows.
func TestManyZones(t *testing.T) {
	for _, shape := range shapes {
		t.Run(shape, func(t *testing.T) {
			const n = 300
			yaml, _, err := nginx.Convert([]nginx.File{{Name: "f", Text: many(shape, n)}}, check)
			if err != nil {
				t.Fatal(err)
			}
			want := n
			if shape == "nested" {
				want = 2 * n
			}
			if got := strings.Count(string(yaml), "  - name: "); got != want {
				t.Errorf("got %d rules, want %d", got, want)
			}
		})
	}
}

func BenchmarkConvert(b *testing.B) {
	for _, shape := range shapes {
		for _, n := range []int{500, 1000, 2000} {
			text := many(shape, n)
			b.Run(fmt.Sprintf("%s/%d", shape, n), func(b *testing.B) {
				for b.Loop() {
					if _, _, err := nginx.Convert([]nginx.File{{Name: "f", Text: text}}, check); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
