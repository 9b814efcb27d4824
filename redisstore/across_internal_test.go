// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestReservationAcrossSlotsBehindALog: several slots decide at one instant, and a log whose
// newest entry is a little ahead of it delays no reservation.
func TestReservationAcrossSlotsBehindALog(t *testing.T) {
	s := bare(redistest.SharedCluster(t, redistest.Redis(t)).Connect(t))
	now := int64(1_763_700_000_000_000)
	s.inject = func() int64 { return now }
	p := testkit.Plan(t, "scope", "10/s sliding-log")
	req := sluice.Request{Op: sluice.OpTake, Charge: sluice.Charge{Plan: p, Key: "ahead", Cost: 1}}
	if d, err := s.Take(t.Context(), req); err != nil || !d.Allowed {
		t.Fatalf("take: %+v, %v", d, err)
	}
	now -= 10
	req.Op = sluice.OpReserve
	for i := range 8 {
		req.More = append(req.More, sluice.Charge{Plan: p, Key: fmt.Sprint(i), Cost: 1})
	}
	if !s.crosses(s.newCall(&req)) {
		t.Fatal("all keys are of one slot")
	}
	if d, err := s.Take(t.Context(), req); err != nil || !d.Allowed {
		t.Errorf("reserve: %+v, %v; want it allowed", d, err)
	}
}
