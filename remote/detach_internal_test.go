// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/storetest"
)

// stalling is a store that ignores its context, and does not answer while stalled.
type stalling struct {
	*memstore.Store
	stalled sync.RWMutex
}

func (s *stalling) Take(_ context.Context, req sluice.Request) (sluice.Decision, error) {
	s.stalled.RLock()
	defer s.stalled.RUnlock()
	return s.Store.Take(context.Background(), req) //nolint:contextcheck // it ignores it
}

func (s *stalling) Slot(_ context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	s.stalled.RLock()
	defer s.stalled.RUnlock()
	return s.Store.Slot(context.Background(), req) //nolint:contextcheck // it ignores it
}

// TestDetachedConformance: a detached store that ignores its context behaves like one that
// does not.
func TestDetachedConformance(t *testing.T) {
	storetest.Test(t, func(_ *testing.T, now func() time.Time) storetest.Harness {
		s := &stalling{Store: memstore.New(memstore.Options{Now: now})}
		d := &detached{store: s, slots: s, late: time.Minute}
		return storetest.Harness{Store: d, Slots: d, Steps: testkit.Steps(1500, 4_000), Stall: func(*testing.T) func() {
			s.stalled.Lock()
			return s.stalled.Unlock
		}}
	})
}
