// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/storetest"
)

// TestConformanceAtSetTimes runs the suite at instants that are set: what depends
// on the time that passes between requests comes about in every run, however
// busy the machine is.
func TestConformanceAtSetTimes(t *testing.T) {
	server := redistest.Start(t, redistest.Redis(t))
	storetest.Test(t, func(t *testing.T, now func() time.Time) storetest.Harness {
		s := clocked(t, server, t.Name())
		s.inject = func() int64 { return now().UnixMicro() }
		return storetest.Harness{Store: s, Slots: s, Steps: 3000}
	})
}
