// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// TestForget: when this process forgets a key that another process has reset, the key is
// allowed at once, and units leased before are not used.
func TestForget(t *testing.T) {
	for name, all := range map[string]bool{"a key": false, "all keys": true} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, f *faulty) {
				s := wrap(t, f, remote.Options{Lease: leasing})
				defer end(t, f, s)
				denied, leased := testkit.Plan(t, "api", "1/h"), testkit.Plan(t, "leased", "100/min sliding-log")
				testkit.Take(t, s, testkit.Request(denied, "k", 1))
				testkit.Take(t, s, testkit.Request(leased, "k", 1))
				testkit.Take(t, s, testkit.Request(leased, "k", 1))
				reset := testkit.Request(denied, "k", 1)
				reset.Op = sluice.OpReset
				if d := testkit.Take(t, s, testkit.Request(denied, "k", 1)); d.Allowed {
					t.Fatalf("%+v, want it denied", d)
				}
				if _, err := f.Store.Take(t.Context(), reset); err != nil {
					t.Fatal(err)
				}
				if d := testkit.Take(t, s, testkit.Request(denied, "k", 1)); d.Allowed {
					t.Fatalf("%+v, want it denied from memory", d)
				}
				if all {
					s.Forget()
				} else {
					s.Forget(sluice.Charge{Plan: denied, Key: "k"}, sluice.Charge{Plan: leased, Key: "k"})
				}
				if d := testkit.Take(t, s, testkit.Request(denied, "k", 1)); !d.Allowed {
					t.Errorf("%+v, want it allowed", d)
				}
				asked := s.Stats().Leases.Asked
				testkit.Take(t, s, testkit.Request(leased, "k", 1))
				if st := s.Stats().Leases; st.Asked == asked || st.Lost == 0 {
					t.Errorf("%+v: a unit in hand was used, want the store asked", st)
				}
			})
		})
	}
}
