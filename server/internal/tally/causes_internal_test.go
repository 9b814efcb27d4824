// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package tally

import (
	"fmt"
	"testing"
	"time"
)

// TestCauses: a cause counts as recent for eleven minutes, and an old one makes room for
// others.
func TestCauses(t *testing.T) {
	var counts Tally
	now := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	first := func(text string, recent, total uint64) {
		t.Helper()
		if got := counts.Causes()[0]; got != (Cause{Status: 401, Text: text, Recent: recent, Total: total}) {
			t.Errorf("got %+v, want %s, %d of %d", got, text, recent, total)
		}
	}
	counts.refused.add(Cause{Status: 401, Text: "old"}) // before the first tick
	counts.Tick(now)
	for range 199 {
		counts.refused.add(Cause{Status: 401, Text: "old"})
	}
	first("old", 200, 200)
	counts.Tick(now.Add(10 * time.Minute))
	first("old", 200, 200)
	counts.Tick(now.Add(11 * time.Minute))
	first("old", 0, 200)
	for range 100 {
		counts.refused.add(Cause{Status: 401, Text: "new"})
	}
	first("new", 100, 100)
	for i := range mostCauses - 1 {
		counts.refused.add(Cause{Status: 400, Text: fmt.Sprint(i)})
	}
	for _, c := range counts.Causes() {
		if c.Text == "old" || c.Text == "other causes" {
			t.Errorf("got %+v", c)
		}
	}
	counts.refused.add(Cause{Status: 400, Text: "one more"})
	if n := len(counts.Causes()); n > mostCauses+1 {
		t.Errorf("%d causes are kept", n)
	}
}
