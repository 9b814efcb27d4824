// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/remote"
)

// unwritable is a store that refuses to write, such as a Redis server without memory: it can
// release slots that it does not hold.
type unwritable struct{}

var errUnwritable = errors.New("OOM command not allowed")

func (unwritable) Take(context.Context, sluice.Request) (sluice.Decision, error) {
	return sluice.Decision{}, errUnwritable
}

func (unwritable) Slot(_ context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op == sluice.SlotRelease {
		return sluice.SlotDecision{Allowed: true}, nil
	}
	return sluice.SlotDecision{}, errUnwritable
}

// TestReleasesHideNoOutage: a store that refuses all slots becomes unavailable, although it
// releases slots that it has not granted.
func TestReleasesHideNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := testkit.Closed(t, wrap(t, unwritable{}, remote.Options{Policy: sluice.FailOpen, Local: memstore.New(memstore.Options{})}))
		for range 20 {
			if d := ask(t, s, sluice.SlotAcquire, "o"); !d.Allowed || !d.Degraded {
				t.Fatalf("got %+v, want a slot of the policy", d)
			}
			ask(t, s, sluice.SlotRelease, "o")
			time.Sleep(time.Second) // meanwhile the slot is released in the store, too
		}
		if s.Err() == nil || !errors.Is(s.Err(), errUnwritable) {
			t.Errorf("healthy %t, cause %v", s.Err() == nil, s.Err())
		}
	})
}
