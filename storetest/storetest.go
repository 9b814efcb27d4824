// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package storetest tests that a [sluice.Store] makes the same decisions as package algo:
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
// Random requests are drawn from seeds; a failure names its seed.
package storetest

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
)

// Harness is a store under test. It must be new and empty, hold at least 10,000 keys, and
// forget only idle keys.
type Harness struct {
	Store sluice.Store
	// Slots is the store of slots. Nil skips its tests.
	Slots sluice.SlotStore
	// OwnClock says that the store uses a clock of its own and not the one that it was given.
	// Then the suite reads the instant of each decision from the decision itself, and skips
	// tests that set the time.
	OwnClock bool
	// Together, if not zero, is the longest time of a request over several keys within which
	// the store decides all of them at one instant. If a request took longer, a difference
	// between the store and the suite ends the run and is no failure.
	Together time.Duration
	// Stall, if not nil, keeps the store from answering until resume is called: requests that
	// are sent meanwhile are decided then, or never. Without it the suite does not test that
	// the store returns when a context ends.
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

// bench opens stores, each with a clock of its own.
type bench struct {
	open func(*testing.T, func() time.Time) Harness
}

// start is the time at which clocks start, an arbitrary one.
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

// settable is store for a test that sets the time. It skips t if the store has a clock of its
// own.
func (b *bench) settable(t *testing.T) (Harness, *hand) {
	t.Helper()
	h, clock := b.store(t)
	if h.OwnClock {
		t.Skip("the store has a clock of its own")
	}
	return h, clock
}
