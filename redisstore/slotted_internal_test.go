// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/storetest"
)

// parting is a store that decides slots and units in separate calls, like a store with these
// keys on different nodes.
type parting struct{ *Store }

func (p parting) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if err := req.Validate(); err != nil || req.Slot == nil {
		return p.Store.Take(ctx, req)
	}
	return p.parted(ctx, &req)
}

// TestConformanceAtSetInstants runs the suite on scripts that get the time from the test, so
// that leases and windows end by it. Cases that depend on the time between requests then
// happen in every run, however busy the machine is.
func TestConformanceAtSetInstants(t *testing.T) {
	t.Parallel() // it waits for nothing but its own server
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			server := redistest.Start(t, b)
			open := func(t *testing.T, now func() time.Time) *Store {
				s := bare(server.Client(t))
				s.keyer.prefix = t.Name()
				s.inject = func() int64 { return max(now().UnixMicro(), 0) }
				return s
			}
			t.Run("one call", func(t *testing.T) {
				storetest.Test(t, func(t *testing.T, now func() time.Time) storetest.Harness {
					s := open(t, now)
					return storetest.Harness{Store: s, Slots: s, Steps: testkit.Steps(600, 3000)}
				})
			})
			t.Run("two calls", func(t *testing.T) {
				storetest.Test(t, func(t *testing.T, now func() time.Time) storetest.Harness {
					if !strings.Contains(t.Name(), "TakesWithSlots") {
						testkit.Long(t) // other requests are one call, as above
					}
					s := open(t, now)
					return storetest.Harness{Store: parting{s}, Slots: s, Steps: testkit.Steps(1000, 3000)}
				})
			})
		})
	}
}

// TestDeniedUnitsRenewNoSlot: if the units are denied, the lease of the caller's slot is not
// extended, with one call or two.
func TestDeniedUnitsRenewNoSlot(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		t.Run(b.Name, func(t *testing.T) {
			s := clocked(t, redistest.Shared(t, b), "")
			p := testkit.Plan(t, "s", "1/day")
			slot := func(op sluice.SlotOp, owner string, ttl time.Duration) sluice.SlotRequest {
				return sluice.SlotRequest{Op: op, Scope: "s", Key: "k", Owner: owner, Cost: 1, Limit: sluice.SlotLimit{Name: "n", Cap: 2, TTL: ttl}}
			}
			s.Set(epoch)
			testkit.Take(t, s.Store, testkit.Request(p, "k", 1))
			if d, err := s.Slot(t.Context(), slot(sluice.SlotAcquire, "a", time.Second)); err != nil || !d.Allowed {
				t.Fatalf("got %+v, %v", d, err)
			}
			s.Set(epoch + 400_000)
			req := testkit.Request(p, "k", 1)
			req.Slot = &sluice.Slot{SlotRequest: slot(sluice.SlotAcquire, "a", time.Minute)}
			if d, err := (parting{s.Store}).Take(t.Context(), req); err != nil || d.Allowed {
				t.Fatalf("a second unit: got %+v, %v", d, err)
			}
			for _, c := range []struct{ at, held int64 }{{999_999, 1}, {1_000_000, 0}} {
				s.Set(epoch + c.at)
				if d, err := s.Slot(t.Context(), slot(sluice.SlotPeek, "b", time.Second)); err != nil || d.Held != c.held {
					t.Errorf("after %d µs: got %+v, %v, want %d held", c.at, d, err, c.held)
				}
			}
		})
	}
}
