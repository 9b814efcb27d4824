// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// void returns the Void of an operation at now that voids all earlier receipts, those
// of units reserved ahead included.
func (it *Item) void(now int64) int64 {
	void := max(it.Void, now, ahead(it.Term, &it.State))
	for i := range it.Others {
		void = max(void, ahead(it.Others[i].By, &it.Others[i]))
	}
	return void
}

// ahead returns an instant up to which units may be reserved in s. It is in the past if none
// are reserved.
func ahead(t *sluice.Term, s *State) int64 {
	if s.Zero() {
		return s.Since
	}
	at := max(s.Since, s.Last)
	switch {
	case t.Refill != sluice.Continuous:
		at = max(at, intervalBucket{}.written(t, s)+t.Micros)
	case !s.Reserved:
	case logs(t):
		at = max(at, slidingLog{}.instant(t, s))
	case t.Kind == compiled.SlidingCounter:
		at = max(at, slidingCounter{}.start(t, s)+t.Sub)
	default:
		at = max(at, s.Idle)
	}
	return at
}
