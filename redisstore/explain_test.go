// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/redisstore"
)

// TestExplainAcrossSlots: keys in several slots of a Cluster are explained together, whether
// the start of the rule is known or not, and no node is written to.
func TestExplainAcrossSlots(t *testing.T) {
	c := redistest.SharedCluster(t, redistest.Redis(t))
	s := open(t, c, redisstore.Options{Timeout: testkit.Ceiling})
	plans := []*sluice.Plan{
		testkit.Plan(t, "wide", "a: 12/day", "b: 20/day sliding-log"), testkit.Plan(t, "new", "9/366day fixed-window initial 4"), testkit.Plan(t, "narrow", "5/366day sliding-counter"),
	}
	denied := 0
	for i := range 60 {
		req := testkit.Request(plans[i%3], fmt.Sprint("k", i%5), 1+int64(i%2))
		for j := range i % 3 {
			req.More = append(req.More, sluice.Charge{Plan: plans[(i+j+1)%3], Key: fmt.Sprint("m", i%4), Cost: 1})
		}
		before := contents(t, c)
		e, err := s.Explain(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if after := contents(t, c); !slices.Equal(before, after) {
			t.Fatalf("before %v, behind %v", before, after)
		}
		room := make(sluice.Outcomes, req.Limits())
		req.Outcomes = &room
		d := testkit.Take(t, s, req)
		if e.Decision.Allowed != d.Allowed || e.Decision.Remaining != d.Remaining {
			t.Fatalf("step %d: explained %+v, decided %+v", i, e.Decision, d)
		}
		for n, r := range e.Limits {
			if r.Allowed != room[n].Allowed || r.Remaining != room[n].Remaining {
				t.Fatalf("step %d, limit %d: explained %+v, decided %+v", i, n, r, room[n])
			}
		}
		if !d.Allowed {
			denied++
		}
	}
	if denied < 10 {
		t.Errorf("%d of 60 were denied; the limits are too wide", denied)
	}
}
