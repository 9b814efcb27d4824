// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"strings"
	"testing"
)

// TestOldName: a key under the name of an earlier release works, and the log says what
// to write, at the start and at each reload.
func TestOldName(t *testing.T) {
	const rule = "upstream: %q\nrules:\n  - {name: api, by: ip, %s: {by: header.X-Tier, limits: {pro: 2/day fixed-window}}, limits: %d/day fixed-window}\n"
	up := named(t, "up")
	s := start(t, fmt.Sprintf(rule, up, "plans", 1), stopped)
	for _, want := range []int{200, 200, 429} {
		if got := s.get(t, "/", "X-Tier", "pro"); got.status != want {
			t.Errorf("got %d, want %d", got.status, want)
		}
	}
	const warning = "plans is called tiers now, and the old name is read in this release only; use tiers"
	if n := strings.Count(s.logs.String(), warning); n != 1 {
		t.Errorf("%d warnings:\n%s", n, s.logs)
	}
	before := s.hash(t)
	s.write(t, fmt.Sprintf(rule, up, "plans", 3))
	until(t, "a reload", func() bool { return s.hash(t) != before })
	until(t, "another warning", func() bool { return strings.Count(s.logs.String(), warning) == 2 })
	s.expectLog(t, warning)
}
