// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the suite's zones, on a machine without zone files

	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Test(t, func(_ *testing.T, now func() time.Time) storetest.Harness {
		s := memstore.New(memstore.Options{Now: now})
		return storetest.Harness{Store: s, Slots: s, Steps: testkit.Steps(5000, 20_000)}
	})
}
