// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
)

func term(t *testing.T, scope, text string) *sluice.Term {
	t.Helper()
	p, err := sluice.Compile(scope, sluice.MustParseLimit(text))
	if err != nil {
		t.Fatal(err)
	}
	return p.Term(0)
}

func TestRegistryForgetsLimitsOutOfUse(t *testing.T) {
	t.Parallel()
	var r registry
	a, b := term(t, "s", "n: 10/min"), term(t, "s", "n: 20/min")
	now := int64(1e15)
	r.enter("s", a, now)
	if got := r.changing(); got {
		t.Error("one limit: got changing, want not")
	}
	now += 1e12
	if got := len(r.enter("s", b, now)); got != 2 || !r.changing() {
		t.Errorf("second limit: got %d, changing %t, want 2, true", got, r.changing())
	}
	life := r.of(a.Series)[0].life
	for range 10 { // a is in use all the time
		now += life / 2
		r.touch(a, now)
		if got := len(r.enter("s", b, now)); got != 2 {
			t.Fatalf("while both are used: got %d limits, want 2", got)
		}
	}
	now += life
	if got := len(r.enter("s", b, now)); got != 2 {
		t.Errorf("at the end of its life: got %d limits, want 2", got)
	}
	now++
	if got := len(r.enter("s", b, now)); got != 1 || r.changing() {
		t.Errorf("after it: got %d limits, changing %t, want 1, false", got, r.changing())
	}
}

func TestRegistryIsBounded(t *testing.T) {
	t.Parallel()
	var r registry
	for i := range 3 * maxChanges {
		r.enter("s", term(t, "s", fmt.Sprintf("n: %d/min", i+1)), int64(i+1))
	}
	if got := len(r.records()); got != maxChanges {
		t.Errorf("got %d limits of a series, want %d", got, maxChanges)
	}
	last := term(t, "another", "5/min")
	var many []*record
	for i := range uint64(maxSeries) { // all in the stripe of last
		series := last.Series + (i+1)*stripes
		many = append(many, newRecord("x", &sluice.Term{ID: i, Series: series}, int64(i)))
	}
	r.replace(many)
	r.enter("another", last, maxSeries)
	if got := len(r.records()); got > maxSeries {
		t.Errorf("got %d series, want at most %d", got, maxSeries)
	}
	newest, oldest := many[maxSeries-1].term.Series, many[0].term.Series
	if r.of(newest) == nil || r.of(last.Series) == nil || r.of(oldest) != nil {
		t.Error("got the newest series forgotten or the oldest kept, want the reverse")
	}
}

func TestRegistryCountsSeriesThatChange(t *testing.T) {
	t.Parallel()
	var r registry
	a, b := term(t, "s", "n: 10/min"), term(t, "s", "n: 20/min")
	r.enter("s", a, 1)
	r.enter("s", b, 2)
	kept := r.records()
	r.replace(nil)
	if r.changing() {
		t.Error("nothing is known: got changing, want not")
	}
	r.replace(kept)
	if !r.changing() {
		t.Error("a series of two limits: got not changing, want changing")
	}
	// Forgetting the series, as it is the oldest of a full stripe, ends it.
	for i := range uint64(maxSeries) {
		series := a.Series + (i+1)*stripes
		r.enter("x", &sluice.Term{ID: i, Series: series}, int64(i+3))
	}
	if r.of(a.Series) != nil || r.changing() {
		t.Errorf("forgotten: got known %t, changing %t, want neither", r.of(a.Series) != nil, r.changing())
	}
}
