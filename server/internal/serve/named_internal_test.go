// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/report"
)

// TestNodesLine: equal upstreams have equal texts, whatever their number; nodes that share
// many rules name some of the same, and always name some.
func TestNodesLine(t *testing.T) {
	t.Parallel()
	parse := func(upstreams, rules string) *config.Config {
		t.Helper()
		c, err := config.Parse("test.yaml", []byte("upstream:\n"+upstreams+"rules:\n"+rules))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	const one = "  - {name: a, limits: 1/h}\n"
	alike := upstreamsOf(parse("  - {url: \"http://h\"}\n", one))
	for _, url := range []string{"http://h:80", "http://h/"} {
		if got := upstreamsOf(parse(fmt.Sprintf("  - {url: %q}\n", url), one)); got != alike {
			t.Errorf("%s is %q, and not %q", url, got, alike)
		}
	}
	many := func(last string) string {
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, "  - {path: /%d, url: \"http://upstream-%d.internal.example.com\"}\n", i, i)
		}
		return upstreamsOf(parse(b.String()+"  - {url: \"http://"+last+"\"}\n", one))
	}
	if a := many("z1"); a != many("z1") || a == many("z2") || len(a) > 256 {
		t.Errorf("of many: %q (%d bytes), and %q", a, len(a), many("z2"))
	}
	rules := func(prefix string, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "  - {name: %s%d, match: {path: /%s%d}, limits: 1/h}\n", prefix, i, prefix, i)
		}
		return b.String()
	}
	line := func(rules string) *report.Node {
		return &report.Node{Named: named(parse("  - {url: \"http://h\"}\n", rules).Policy)}
	}
	a, b := line(rules("r", 40)), line(rules("x", 1)+rules("r", 40))
	if _, shares := a.Shares(b); !shares || len(a.Named) != report.MostNamed {
		t.Errorf("%q and %q have nothing in common", a.Named, b.Named)
	}
	if other := line(rules("y", 40)); a.Apart(other) || !line(rules("y", 3)).Apart(line(rules("z", 3))) || slices.Equal(a.Named, other.Named) {
		t.Error("of 40 rules not all are named, of 3 they are")
	}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	f := report.Fleet{Now: now}
	for ago, silent := range map[time.Duration]bool{0: false, 10 * time.Second: false, time.Minute: true, -time.Hour: true} {
		if got := f.Silent(&report.Seen{Last: now.Add(-ago)}); got != silent {
			t.Errorf("it wrote %v ago: silent %v", ago, got)
		}
	}
}
