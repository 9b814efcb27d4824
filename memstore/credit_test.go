// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestCreditSurvivesARestart, however much it is, and lapses when it would have.
func TestCreditSurvivesARestart(t *testing.T) {
	for _, c := range []struct {
		limit       string
		given, left int64
	}{
		{"10/min credit 5 credit-for 1h", 5, 12},
		{"1000000/s burst 10 credit 4000000000000 credit-for 1h", 4_000_000_000_000, 4_000_000_000_007},
	} {
		clock := testkit.NewClock()
		first := memstore.New(memstore.Options{Now: clock.Now})
		p := testkit.Plan(t, "s", c.limit)
		add := testkit.Request(p, "k", sluice.MaxQuota)
		add.Op = sluice.OpAdd
		if d := testkit.Take(t, first, add); d.Spent != -c.given {
			t.Errorf("%s: %+v, want %d given", c.limit, d, c.given)
		}
		testkit.Take(t, first, testkit.Request(p, "k", 3))
		var kept bytes.Buffer
		if err := first.Snapshot(&kept); err != nil {
			t.Fatal(err)
		}
		second := memstore.New(memstore.Options{Now: clock.Now})
		if err := second.Restore(&kept); err != nil {
			t.Fatal(err)
		}
		peek := testkit.Request(p, "k", 1)
		peek.Op = sluice.OpPeek
		if d := testkit.Take(t, second, peek); d.Remaining != c.left || d.ResetAfter != time.Hour {
			t.Errorf("%s: %+v, want %d left for an hour", c.limit, d, c.left)
		}
		clock.Advance(time.Hour)
		if d := testkit.Take(t, second, peek); d.Remaining != 10 {
			t.Errorf("%s: %+v, want 10 left", c.limit, d)
		}
	}
}
