// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, limit string
		terms       sluice.LeaseTerms
		want        string // part of the error; "" for none
	}{
		{"defaults", "100/min", sluice.LeaseTerms{}, ""},
		{"log", "100/min sliding-log", sluice.LeaseTerms{}, ""},
		{"calendar", "100/day fixed-window calendar Asia/Seoul", sluice.LeaseTerms{}, ""},
		{"meter", "100/s leaky-bucket burst 50 nodelay", sluice.LeaseTerms{}, ""},
		{"queue", "100/s leaky-bucket burst 50", sluice.LeaseTerms{}, "delays requests"},
		{"denials count in a bucket", "100/s count-denied", sluice.LeaseTerms{}, "counts denied"},
		{"denials count", "100/s sliding-log count-denied", sluice.LeaseTerms{}, "counts denied"},
		{"warm-up", "100/s burst 50 warm-up 4s", sluice.LeaseTerms{}, "warms a key up"},
		{"no burst left", "100/s burst 5", sluice.LeaseTerms{TTL: 50 * time.Millisecond}, "leaves nothing to lease"},
		{"burst of 1", "100/s burst 1", sluice.LeaseTerms{}, "leaves nothing to lease"},
		{"window too long", "100/8784h sliding-log", sluice.LeaseTerms{TTL: time.Minute}, "shorten either"},
		{"TTL too long", "100/min", sluice.LeaseTerms{TTL: 2 * time.Minute}, "TTL of 2m0s must be"},
		{"TTL not whole", "100/min", sluice.LeaseTerms{TTL: 1500}, "TTL of 1.5µs must be"},
		{"TTL negative", "100/min", sluice.LeaseTerms{TTL: -1}, "TTL of -1ns must be"},
		{"units negative", "100/min", sluice.LeaseTerms{Units: -1}, "leases of -1 Units"},
		{"nodes negative", "100/min", sluice.LeaseTerms{Nodes: -1}, "-1 Nodes must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := testkit.Plan(t, "check", c.limit)
			_, _, err := plan.Lease(c.terms)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("lease: %v, want %q", err, c.want)
			}
			s := newNearStore(memstore.New(memstore.Options{}), Options{Lease: always(c.terms)})
			_, err = s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}})
			if (err == nil) != (c.want == "") {
				t.Fatalf("take: %v, want %q", err, c.want)
			}
		})
	}
}
