// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
)

// Play plays steps on a new store. It fails t with a shortened list if the documents do not
// allow an answer, and skips t if a limit's text is not known.
func Play(t *testing.T, open Open, w *World, steps []Step) {
	t.Helper()
	if _, err := w.compile(""); err != nil {
		t.Skip(err)
	}
	if f, _ := play(t, w, open, steps); f != nil {
		report(t, w, open, f, "given steps")
	}
}

// Served sends takes of one unit to a new store, under the plans of w in turn. It fails t if
// at any moment fewer are allowed than a bucket of the least rate and the least Burst of all
// had allowed by the take before (rules.md 1, liveness): a change of version may round up by 1
// µs, which is less than every for all takes together. All limits must be buckets.
func Served(t *testing.T, open Open, w *World, every int64, takes int) {
	t.Helper()
	c, err := w.compile("")
	if err != nil {
		t.Fatal(err)
	}
	s := c.terms[0][0].series
	slow := slices.MinFunc(s.versions, func(a, b *version) int {
		if b.faster(a) {
			return -1
		}
		return 1
	})
	burst := slow.burst
	for _, v := range s.versions {
		burst = min(burst, v.burst)
	}
	store, now := open(t), int64(start)
	least := balance{last: now}
	var got, due int
	for i := range takes {
		before := due
		store.Set(now)
		d, err := store.Take(background(), sluice.Request{Charge: sluice.Charge{Plan: c.plans[i%len(c.plans)], Key: "k", Cost: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			got++
		}
		if owed := least.at(now, slow, slow); owed.hi+s.den <= burst*s.den {
			least.add(now, owed, exactly(1), s.den)
			due++
		}
		if got < before {
			t.Errorf("liveness: take %d of %v in turn, every %v: allowed %d, a bucket of the least rate and Burst %d by the take before", i+1, w.Plans, micros(every), got, before)
			return
		}
		now += every
	}
}
