// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice_test

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice"
)

// TestBlockAlone: a block counts the denials of other limits, so a plan with blocks needs one.
func TestBlockAlone(t *testing.T) {
	block, other := sluice.MustParseLimit("20/min block 10min"), sluice.MustParseLimit("b: 9/h block 1day")
	for _, limits := range [][]sluice.Limit{{block}, {block, other}} {
		if _, err := sluice.Compile("s", limits...); err == nil || !strings.Contains(err.Error(), "the plan has none; add a limit, such as 100/min") {
			t.Errorf("%v: got %v, want that there is no other limit", limits, err)
		}
	}
	for _, limits := range [][]sluice.Limit{{block, sluice.PerMinute(5)}, {sluice.PerMinute(5), block, other}} {
		if _, err := sluice.Compile("s", limits...); err != nil {
			t.Errorf("%v: got %v", limits, err)
		}
	}
	if _, err := sluice.Compile("s", block, sluice.Per(0, 1)); err == nil || strings.Contains(err.Error(), "there are none") {
		t.Errorf("beside a limit that is not valid: got %v, want that fault alone", err)
	}
}

// TestCompileLimit: a limit read from a state compiles to the same Term as in a Plan.
func TestCompileLimit(t *testing.T) {
	block := sluice.MustParseLimit("20/min block 10min")
	plan, err := sluice.Compile("s", sluice.PerMinute(5), block)
	if err != nil {
		t.Fatal(err)
	}
	got, err := sluice.CompileLimit("s", block)
	if err != nil || *got != *plan.Term(1) {
		t.Errorf("got %+v, %v, want %+v", got, err, plan.Term(1))
	}
	if _, err := sluice.CompileLimit("", block); err == nil {
		t.Error("no scope: got no error")
	}
	if _, err := sluice.CompileLimit("s", sluice.Limit{}); err == nil {
		t.Error("no limit: got no error")
	}
}

// TestBlockIsNotLeased: a lease would not see the denials.
func TestBlockIsNotLeased(t *testing.T) {
	plan, err := sluice.Compile("s", sluice.PerMinute(100), sluice.MustParseLimit("20/min block 10min"))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := plan.Lease(sluice.LeaseTerms{}); err == nil || !strings.Contains(err.Error(), "leave out the block or the lease") {
		t.Errorf("got %v, want that a block cannot be leased", err)
	}
}
