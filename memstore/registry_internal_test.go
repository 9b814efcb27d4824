// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"sync"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

func term(t testing.TB, text string) *sluice.Term {
	t.Helper()
	return testkit.Plan(t, "s", text).Term(0)
}

// TestRegistryForgetsWhatNoSlotNames: the registry stays small however many versions come and
// go.
func TestRegistryForgetsWhatNoSlotNames(t *testing.T) {
	t.Parallel()
	var r registry
	now := int64(1e15)
	base := r.enter("s", term(t, "n: 1/min"), now)
	named := r.name(r.enter("s", term(t, "n: 2/min"), now), now)
	for i := range 20 * minSweep {
		now += 1e6
		r.enter("s", term(t, fmt.Sprintf("n: %d/min", i+3)), now)
	}
	if got := len(r.all()); got > 4*minSweep || r.known != got {
		t.Errorf("got %d versions (%d counted), want at most %d", got, r.known, 4*minSweep)
	}
	if r.at(base.index) != base || r.at(named.index) != named {
		t.Error("the limit that words are of, or one that a slot names, is forgotten")
	}
	if n := len(*r.byIndex.Load()); n > 4*minSweep {
		t.Errorf("got %d indexes, want those of forgotten versions used again", n)
	}
	if named.series.alone(now) {
		t.Error("got alone, want not")
	}
}

// TestRegistryNamesWhatWasForgotten: a caller that has looked up a version before it was
// forgotten gets its replacement.
func TestRegistryNamesWhatWasForgotten(t *testing.T) {
	t.Parallel()
	var r registry
	now := int64(1e15)
	r.enter("s", term(t, "n: 1/min"), now)
	v := r.enter("s", term(t, "n: 2/min"), now)
	now += 1e9
	r.mu.Lock()
	r.forget(now)
	r.mu.Unlock()
	if r.at(v.index).refs.Load() >= 0 {
		t.Fatal("got the version kept, want it forgotten")
	}
	got := r.name(v, now)
	if got == v || got.term.ID != v.term.ID || got.refs.Load() != 1 || r.at(got.index) != got {
		t.Errorf("got %+v, want another version of the same limit", got)
	}
	if v.series.alone(now) {
		t.Error("got alone, want not: receipts of the forgotten may be about")
	}
}

func TestRegistryConcurrently(t *testing.T) {
	t.Parallel()
	var r registry
	terms := make([]*sluice.Term, 3*minSweep)
	for i := range terms {
		terms[i] = term(t, fmt.Sprintf("n: %d/min", i+1))
	}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			now := int64(1e15)
			for i := range 4 * len(terms) {
				now += 1e6
				v := r.name(r.enter("s", terms[(i*(2*g+1))%len(terms)], now), now)
				if got := r.at(v.index); got != v {
					t.Errorf("index %d: got another version", v.index)
				}
				r.unname(v.index)
			}
		})
	}
	wg.Wait()
}
