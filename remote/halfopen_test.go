// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// TestGivenBackWhileHalfOpen: remembered denials of a key are forgotten if units are given
// back while only a few requests go to the store.
func TestGivenBackWhileHalfOpen(t *testing.T) {
	for _, op := range []sluice.Op{sluice.OpReset, sluice.OpRefund} {
		for _, leased := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty()
				p := testkit.Plan(t, "scope", "10/h sliding-log")
				s := wrap(t, f, remote.Options{Policy: sluice.FailClosed, Lease: func(q *sluice.Plan) (sluice.LeaseTerms, bool) {
					return sluice.LeaseTerms{TTL: 10 * time.Second}, leased && p == q
				}})
				defer end(t, f, s)
				take := func(cost int64) (sluice.Decision, error) {
					return s.Take(t.Context(), sluice.Request{Charge: sluice.Charge{Plan: p, Key: "key", Cost: cost}})
				}
				d, err := take(10)
				if err != nil || !d.Allowed {
					t.Fatalf("%+v, %v", d, err)
				}
				if denied, err := take(1); err != nil || denied.Allowed {
					t.Fatalf("%+v, %v", denied, err)
				}
				began := time.Now()
				bring(t, f, s, erring)
				f.set(none)
				for {
					req := sluice.Request{Op: op, Charge: sluice.Charge{Plan: p, Key: "key", Cost: 10}, At: d.At}
					if _, err = s.Take(t.Context(), req); err == nil {
						break
					}
					time.Sleep(time.Millisecond)
				}
				if s.Err() == nil || time.Since(began) > bounds.MaxDenialAge {
					t.Fatalf("healthy %v after %v: too late", s.Err() == nil, time.Since(began))
				}
				mend(t, f, s)
				if d, err = take(1); err != nil || !d.Allowed {
					t.Errorf("%v, leased %v: after %v denied: %+v, %v", op, leased, time.Since(began), d, err)
				}
			})
		}
	}
}
