// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"math/rand/v2"
	"time"

	"github.com/sluicegate/sluice/internal/testkit"
)

// hand is a clock that moves at random.
type hand struct{ testkit.Clock }

// add advances the clock by some µs.
func (c *hand) add(micros int64) { c.Advance(time.Duration(micros) * time.Microsecond) }

// move advances the clock: often not at all, seldom beyond a window.
func (c *hand) move(rnd *rand.Rand) {
	const ms, s = 1000, 1_000_000
	switch rnd.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6:
	case 7, 8:
		c.add(1)
	case 9, 10, 11, 12:
		c.add(rnd.Int64N(ms))
	case 13, 14, 15:
		c.add(rnd.Int64N(50 * ms))
	case 16, 17:
		c.add(rnd.Int64N(s))
	case 18:
		c.add(s - c.Micros()%s - 1) // just before the edge of a window
	default:
		switch rnd.IntN(50) {
		case 0:
			c.add(rnd.Int64N(2 * 24 * 3600 * s))
		default:
			c.add(rnd.Int64N(5 * s))
		}
	}
}

// creep advances the clock by less than move, so that many requests find live states under
// windows of a second, and some come just when a state becomes idle.
func (c *hand) creep(rnd *rand.Rand) {
	switch rnd.IntN(100) {
	case 0:
		c.move(rnd)
	case 1:
		c.add(rnd.Int64N(2_500_000))
	default:
		c.add(rnd.Int64N(200))
		if rnd.IntN(4) == 0 {
			c.add(rnd.Int64N(60_000))
		}
	}
}
