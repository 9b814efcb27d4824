// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package compiled_test

import (
	"sync"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/testkit"
)

func TestPreparedKeepsOwnersApart(t *testing.T) {
	a, b := testkit.Compile(t, "a", sluice.PerMinute(1)), testkit.Compile(t, "b", sluice.PerMinute(1))
	one, two := new(compiled.Prepared[string]), new(compiled.Prepared[string])
	if got, ok := one.Of(&a.Kept); ok {
		t.Errorf("kept %q before anything was", got)
	}
	one.Keep(&a.Kept, "one of a")
	two.Keep(&a.Kept, "two of a")
	one.Keep(&b.Kept, "one of b")
	one.Keep(&a.Kept, "one of a again")
	for _, c := range []struct {
		of   *compiled.Prepared[string]
		plan *sluice.Plan
		want string
		ok   bool
	}{{one, a, "one of a again", true}, {two, a, "two of a", true}, {one, b, "one of b", true}, {two, b, "", false}} {
		if got, ok := c.of.Of(&c.plan.Kept); got != c.want || ok != c.ok {
			t.Errorf("of %s: %q, %t, want %q, %t", c.plan.Scope(), got, ok, c.want, c.ok)
		}
	}
}

// TestPreparedIsBounded: owners that come and go leave only a few values, and the last owner
// always finds its own.
func TestPreparedIsBounded(t *testing.T) {
	plan := testkit.Compile(t, "s", sluice.PerMinute(1))
	owners := make([]*compiled.Prepared[int], 100)
	for i := range owners {
		owners[i] = new(compiled.Prepared[int])
		owners[i].Keep(&plan.Kept, i)
		if got, ok := owners[i].Of(&plan.Kept); got != i || !ok {
			t.Fatalf("owner %d finds %d, %t", i, got, ok)
		}
	}
	n := 0
	for i, o := range owners {
		if got, ok := o.Of(&plan.Kept); ok {
			if n++; got != i {
				t.Errorf("owner %d finds %d", i, got)
			}
		}
	}
	if n != 8 {
		t.Errorf("%d values are kept, want 8", n)
	}
}

func TestPreparedConcurrently(t *testing.T) {
	plan := testkit.Compile(t, "s", sluice.PerMinute(1))
	var group sync.WaitGroup
	for range 8 {
		o := new(compiled.Prepared[int])
		for range 4 {
			group.Go(func() {
				for i := range 1000 {
					o.Keep(&plan.Kept, i)
					if _, ok := o.Of(&plan.Kept); !ok {
						t.Error("lost what was kept")
						return
					}
				}
			})
		}
	}
	group.Wait()
}

func TestPreparedIsFoundWithoutAllocating(t *testing.T) {
	plan := testkit.Compile(t, "s", sluice.PerMinute(1))
	o := new(compiled.Prepared[*sluice.Term])
	o.Keep(&plan.Kept, plan.Term(0))
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := o.Of(&plan.Kept); !ok {
			t.Error("not found")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}
