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
	life := (*r.series.Load())[a.Series][0].life
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
	many := make(map[uint64][]*record)
	for i := range maxSeries {
		rec := newRecord("x", &sluice.Term{ID: uint64(i), Series: uint64(i)}, int64(i))
		many[uint64(i)] = []*record{rec}
	}
	r.publish(many, false)
	last := term(t, "another", "5/min")
	r.enter("another", last, maxSeries)
	m := *r.series.Load()
	if len(m) > maxSeries {
		t.Errorf("got %d series, want at most %d", len(m), maxSeries)
	}
	if m[maxSeries-1] == nil || m[last.Series] == nil || m[0] != nil {
		t.Error("got the newest series forgotten or the oldest kept, want the reverse")
	}
}
