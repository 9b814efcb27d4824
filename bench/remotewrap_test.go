// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/remote"
)

// wrapRemote puts around a store what programs do, so that no call ends before
// the store answers. lease, if not nil, leases all plans.
func wrapRemote(b *testing.B, store sluice.Store, lease func(*sluice.Plan) (sluice.LeaseTerms, bool)) sluice.Store {
	b.Helper()
	s, err := remote.Wrap(store, remote.Options{Policy: sluice.FailClosed, Timeout: 10 * time.Second, Lease: lease})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}
