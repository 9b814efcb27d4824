// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package storetest

import (
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// hand is a clock that stands where it is put, in µs.
type hand struct{ micros atomic.Int64 }

func (c *hand) now() time.Time { return time.UnixMicro(c.micros.Load()) }

func (c *hand) set(micros int64) { c.micros.Store(micros) }

// move puts the clock on, often not at all, seldom beyond a window.
func (c *hand) move(rnd *rand.Rand) {
	const ms, s = 1000, 1_000_000
	switch rnd.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6:
	case 7, 8:
		c.micros.Add(1)
	case 9, 10, 11, 12:
		c.micros.Add(rnd.Int64N(ms))
	case 13, 14, 15:
		c.micros.Add(rnd.Int64N(50 * ms))
	case 16, 17:
		c.micros.Add(rnd.Int64N(s))
	case 18:
		c.micros.Add(s - c.micros.Load()%s - 1) // just before the edge of a window
	default:
		switch rnd.IntN(50) {
		case 0:
			c.micros.Add(rnd.Int64N(2 * 24 * 3600 * s))
		default:
			c.micros.Add(rnd.Int64N(5 * s))
		}
	}
}
