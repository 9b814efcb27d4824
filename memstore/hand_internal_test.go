// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"fmt"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestHandKeepsItsPlace: the hand has still passed the same states after their slots have
// been replaced by more. Otherwise it would pass them again in the same round and drop
// states before they could be taken.
func TestHandKeepsItsPlace(t *testing.T) {
	for _, c := range []struct {
		limit string
		size  stateSize
	}{{"5/15min", sizeWord}, {"5/15min fixed-window", sizeWord}, {"5/15min sliding-counter", sizeFixed}, {"5/15min sliding-log", sizeRing}} {
		t.Run(c.limit, func(t *testing.T) {
			clock := testkit.NewClock()
			s := New(Options{MaxKeys: 1000, Now: clock.Now})
			sh := s.shards[0].Load()
			p := testkit.Plan(t, "s", c.limit)
			take := func(i int) { testkit.Take(t, s, testkit.Request(p, fmt.Sprint(i), 1)) }
			for i := range 300 {
				take(i)
			}
			before := sh.slots(c.size)
			for _, h := range [...]*hand{&sh.eviction.hand, &sh.eviction.second} {
				*h = hand{c.size, before / 2}
			}
			passed := make(map[uint64]bool)
			each := func(f func(i int, id uint64)) {
				for i := range sh.slots(c.size) {
					if c.size == sizeWord {
						f(i, sh.words.array.Load().id(i))
					} else {
						f(i, sh.tables[c.size].id(i))
					}
				}
			}
			each(func(i int, id uint64) {
				if id != 0 && i < before/2 {
					passed[id] = true
				}
			})
			for i := 300; i < 1000; i++ {
				take(i)
			}
			for _, h := range [...]hand{sh.eviction.hand, sh.eviction.second} {
				again := 0
				each(func(i int, id uint64) {
					if passed[id] && i >= h.at {
						again++
					}
				})
				if again > len(passed)/4 { // states in the first slots because the last were occupied
					t.Errorf("of %d slots, then %d, the hand at %d passes %d of %d again", before, sh.slots(c.size), h.at, again, len(passed))
				}
			}
		})
	}
}
