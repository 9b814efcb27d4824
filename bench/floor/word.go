// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package floor

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"
)

// rate is a limit as the generic cell rate algorithm counts it.
type rate struct {
	cell  int64 // ns that one unit lasts
	reach int64 // ns that a full burst lasts
}

func newRate(quota int64, window time.Duration, burst int64) (rate, error) {
	if quota < 1 || window < 1 || burst < 1 {
		return rate{}, fmt.Errorf("floor: quota %d, window %v and burst %d must all be at least 1", quota, window, burst)
	}
	cell := int64(window) / quota
	// The floor keeps no remainder, so it takes only rates that have none.
	if cell == 0 || int64(window)%quota != 0 {
		return rate{}, fmt.Errorf("floor: %d units in %v do not last whole nanoseconds", quota, window)
	}
	if burst > math.MaxInt64/4/cell {
		return rate{}, fmt.Errorf("floor: a burst of %d units of %dns is out of range", burst, cell)
	}
	return rate{cell: cell, reach: cell * burst}, nil
}

// Word is one limit without keys. It is safe for concurrent use and does not
// allocate.
type Word struct {
	rate
	base time.Time
	full atomic.Int64 // ns since base at which the bucket is full again
}

// NewWord returns a Word that grants quota units per window, spread evenly,
// and burst at once. All must be at least 1, and window a multiple of quota.
func NewWord(quota int64, window time.Duration, burst int64) (*Word, error) {
	r, err := newRate(quota, window, burst)
	if err != nil {
		return nil, err
	}
	return &Word{rate: r, base: time.Now()}, nil
}

// Take spends cost units if they fit and reports whether they did. The cost
// must not be negative nor, in time, out of range.
func (w *Word) Take(cost int64) bool {
	now := int64(time.Since(w.base))
	for {
		full := w.full.Load()
		next := max(full, now) + w.cell*cost
		if next-now > w.reach {
			return false
		}
		if w.full.CompareAndSwap(full, next) {
			return true
		}
	}
}
