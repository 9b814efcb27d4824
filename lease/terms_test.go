// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/storekit"
	"github.com/sluicegate/sluice/lease"
	"github.com/sluicegate/sluice/memstore"
)

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name, limit string
		terms       lease.Terms
		want        string // part of the error; "" for none
	}{
		{"defaults", "100/min", lease.Terms{}, ""},
		{"log", "100/min sliding-log", lease.Terms{}, ""},
		{"calendar", "100/day fixed-window calendar Asia/Seoul", lease.Terms{}, ""},
		{"meter", "100/s leaky-bucket burst 50 nodelay", lease.Terms{}, ""},
		{"queue", "100/s leaky-bucket burst 50", lease.Terms{}, "holds requests back"},
		{"denials count", "100/s sliding-log count-denied", lease.Terms{}, "counts denied"},
		{"no burst left", "100/s burst 5", lease.Terms{TTL: 50 * time.Millisecond}, "leaves nothing to lease"},
		{"burst of 1", "100/s burst 1", lease.Terms{}, "leaves nothing to lease"},
		{"window too long", "100/8784h sliding-log", lease.Terms{TTL: time.Minute}, "shorten either"},
		{"TTL too long", "100/min", lease.Terms{TTL: 2 * time.Minute}, "TTL of 2m0s must be"},
		{"TTL not whole", "100/min", lease.Terms{TTL: 1500}, "TTL of 1.5µs must be"},
		{"TTL negative", "100/min", lease.Terms{TTL: -1}, "TTL of -1ns must be"},
		{"units negative", "100/min", lease.Terms{Units: -1}, "leases of -1 Units"},
		{"nodes negative", "100/min", lease.Terms{Nodes: -1}, "-1 Nodes must be"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := storekit.Plan(t, "check", c.limit)
			err := lease.Check(plan, c.terms)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("check: %v, want %q", err, c.want)
			}
			s := lease.Wrap(memstore.New(memstore.Options{}), lease.Options{Of: always(c.terms)})
			_, err = s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: plan, Key: "k", Cost: 1}})
			if (err == nil) != (c.want == "") {
				t.Fatalf("take: %v, want %q", err, c.want)
			}
		})
	}
}

func TestUnder(t *testing.T) {
	terms := lease.Terms{TTL: 50 * time.Millisecond, Units: 10}
	for _, c := range []struct {
		limit, want string
	}{
		{"1000/s sliding-log", "never over; under by at most 48 of 1000 requests per 1s, and by the up to 80 that 8 nodes hold for up to 50ms"},
		{"1000/s burst 200", "never over; under by at most 50 of a burst of 200 requests, and by the up to 80 that 8 nodes hold for up to 50ms"},
		{"1000/s fixed-window", "never over; under by at most the up to 80 that 8 nodes hold for up to 50ms"},
		{"20/s sliding-log", "never over; under by at most 1 of 20 requests per 1s, and by the up to 20 that 8 nodes hold for up to 50ms"},
	} {
		t.Run(c.limit, func(t *testing.T) {
			s, err := lease.Under(sluice.MustParseLimit(c.limit), terms, 8)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.String(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, err := lease.Under(sluice.PerSecond(10), terms, 0); err == nil {
		t.Error("0 nodes: no error")
	}
	if _, err := lease.Under(sluice.Limit{}, terms, 1); err == nil {
		t.Error("no limit: no error")
	}
}
