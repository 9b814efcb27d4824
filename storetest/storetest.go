// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest tests that a [sluice.Store] decides as package algo does:
// every request on the same state at the same instant has the same decision.
// The tests of a store run the suite:
//
//	func TestConformance(t *testing.T) {
//		storetest.Test(t, func(t *testing.T, now func() time.Time) storetest.Harness {
//			s := mystore.New(mystore.Options{Now: now})
//			return storetest.Harness{Store: s, Slots: s}
//		})
//	}
//
// Random requests are drawn from seeds that a failure names.
package storetest

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// Harness is a store under test. It must be new and empty, hold at least
// 10,000 keys, and forget none that is not idle.
type Harness struct {
	Store sluice.Store
	// Slots is where the store keeps the holders of slots. Nil skips those tests.
	Slots sluice.SlotStore
	// OwnClock says that the store goes by a clock of its own and not by the
	// one it was given. Then the suite reads the instant of each decision from
	// the decision itself and leaves out what needs time to be set.
	OwnClock bool
	// Together, if not zero, is how long the store may take over a request of
	// several keys and still decide them all at one instant. A run in which one
	// took longer is over, and no failure, where the store and the suite differ.
	Together time.Duration
	// Stall, if not nil, keeps the store from answering until resume is called:
	// what is asked meanwhile is decided then, or never. Without it a store is not
	// seen to return when a context ends.
	Stall func(t *testing.T) (resume func())
	// Steps is how many random requests each run makes; zero means 20,000.
	Steps int
}

// seeds is how many runs of random requests each test makes.
const seeds = 3

// Test runs the suite. For each part it calls open, which makes a store whose
// clock is now; a store with a clock of its own ignores that. open may end a
// store with t.Cleanup. The function now is safe for concurrent use.
func Test(t *testing.T, open func(t *testing.T, now func() time.Time) Harness) {
	t.Helper()
	for _, part := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"Requests", testRequests},
		{"Batches", testBatches},
		{"ChangedLimits", testChangedLimits},
		{"ChangedWithin", testChangedWithin},
		{"ChangedBatches", testChangedBatches},
		{"ChangedBlocks", testChangedBlocks},
		{"Keys", testKeys},
		{"Costs", testCosts},
		{"Settles", testSettles},
		{"ReceiptsBehindReset", testReceiptsBehindReset},
		{"Platforms", testPlatforms},
		{"Vectors", testVectors},
		{"TimeZero", testTimeZero},
		{"ClockBack", testClockBack},
		{"Refused", testRefused},
		{"Concurrent", testConcurrent},
		{"ConcurrentKeys", testConcurrentKeys},
		{"ConcurrentRefunds", testConcurrentRefunds},
		{"ContextEnded", testContextEnded},
		{"Contexts", testContexts},
		{"Holds", testHolds},
		{"HoldBatches", testHoldBatches},
		{"HoldsConcurrent", testHoldsConcurrent},
		{"Slots", testSlots},
		{"SlotsRefused", testSlotsRefused},
		{"SlotsConcurrent", testSlotsConcurrent},
		{"TakesWithSlots", testTakesWithSlots},
		{"TakesWithSlotsConcurrent", testTakesWithSlotsConcurrent},
	} {
		t.Run(part.name, func(t *testing.T) {
			part.run(t, &bench{open: open})
		})
	}
}

// bench opens stores, each with a hand of its own on the clock.
type bench struct {
	open func(*testing.T, func() time.Time) Harness
}

// start is where clocks start: a moment like any other.
var start = time.UnixMicro(1_790_000_000_123_456)

func (b *bench) store(t *testing.T) (Harness, *hand) {
	t.Helper()
	clock := &hand{}
	clock.Set(start)
	h := b.open(t, clock.Now)
	if h.Store == nil {
		t.Fatal("storetest: open returned no Store")
	}
	if h.Steps == 0 {
		h.Steps = 20_000
	}
	return h, clock
}

// settable is store for a test that sets the time; it skips t if it cannot be.
func (b *bench) settable(t *testing.T) (Harness, *hand) {
	t.Helper()
	h, clock := b.store(t)
	if h.OwnClock {
		t.Skip("the store has a clock of its own")
	}
	return h, clock
}
