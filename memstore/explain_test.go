// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// TestExplainSlot: a slot is explained as it would be acquired, also if leases have ended. The
// explanation renews and drops nothing.
func TestExplainSlot(t *testing.T) {
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	for i := range 300 {
		clock.Advance(time.Duration(i%7) * 100 * time.Millisecond)
		req := slot(fmt.Sprint(i % 5))
		req.Limit.Cap, req.Limit.TTL, req.Cost = 3, 2*time.Second, 1+int64(i%2)
		before := snapshot(t, s)
		explained, err := s.ExplainSlot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(snapshot(t, s), before) {
			t.Fatal("to explain has changed the store")
		}
		decided, err := s.Slot(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if explained != decided {
			t.Fatalf("step %d: explained %+v, decided %+v", i, explained, decided)
		}
	}
}

// TestExplainKeepsWhatIsIdle: Explain, unlike a peek, drops no idle state and registers no
// limit.
func TestExplainKeepsWhatIsIdle(t *testing.T) {
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	plans := []*sluice.Plan{
		testkit.Plan(t, "a", "n: 10/s"), testkit.Plan(t, "a", "n: 20/s"), testkit.Plan(t, "a", "n: 5/s sliding-log"),
	}
	for _, p := range plans[:2] {
		testkit.Take(t, s, testkit.Request(p, "k", 3))
	}
	clock.Advance(time.Minute)
	before, states := snapshot(t, s), s.Stats().States
	for _, p := range plans {
		e, err := s.Explain(t.Context(), testkit.Request(p, "k", 1))
		if err != nil || !e.Decision.Allowed {
			t.Fatalf("got %+v, %v", e, err)
		}
	}
	if got := s.Stats().States; got != states || !bytes.Equal(snapshot(t, s), before) {
		t.Errorf("%d states, or others than the %d before", got, states)
	}
}

// TestExplainRefuses: operations that change states are not explained.
func TestExplainRefuses(t *testing.T) {
	s := memstore.New(memstore.Options{})
	req := testkit.Request(testkit.Plan(t, "s", "10/s"), "k", 1)
	for _, op := range []sluice.Op{sluice.OpCharge, sluice.OpRefund, sluice.OpReset, sluice.OpTakeUpTo} {
		req.Op = op
		if _, err := s.Explain(t.Context(), req); err == nil {
			t.Errorf("%v is explained", op)
		}
	}
	held := slot("a")
	held.Op = sluice.SlotRelease
	if _, err := s.ExplainSlot(t.Context(), held); err == nil {
		t.Error("a release is explained")
	}
}

// TestExplainBesideTakes: concurrent calls of Explain do not change the number of allowed
// takes.
func TestExplainBesideTakes(t *testing.T) {
	clock := testkit.NewClock()
	s := memstore.New(memstore.Options{Now: clock.Now})
	plans := []*sluice.Plan{testkit.Plan(t, "word", "500/day"), testkit.Plan(t, "ring", "500/day sliding-log"), testkit.Plan(t, "both", "a: 500/day", "b: 600/day fixed-window")}
	var passed [3]atomic.Int64
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 600 {
				d, err := s.Take(t.Context(), testkit.Request(plans[i%3], "k", 1))
				if err != nil {
					t.Error(err)
				}
				if d.Allowed {
					passed[i%3].Add(1)
				}
			}
		})
		group.Go(func() {
			for i := range 300 {
				e, err := s.Explain(t.Context(), testkit.Request(plans[i%3], "k", 1))
				if err != nil || len(e.Limits) != plans[i%3].Len() {
					t.Errorf("got %+v, %v", e, err)
				}
			}
		})
	}
	group.Wait()
	for i := range passed {
		if got := passed[i].Load(); got != 500 {
			t.Errorf("%s: %d passed, want 500", plans[i].Scope(), got)
		}
	}
}
