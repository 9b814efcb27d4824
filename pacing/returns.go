// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"slices"
	"time"
)

// mostReturns bounds the number of instants of a limit.
const mostReturns = 64

// returns are the units that the client has spent and that will be refilled, under any
// algorithm: an answer that states when the limit is full also bounds when the unit of its own
// call is refilled.
type returns []comeback

// comeback is a number of units that are refilled at an instant.
type comeback struct {
	at time.Time
	n  int64
}

// add records a unit that is refilled at an instant.
func (r *returns) add(at time.Time) {
	i, found := slices.BinarySearchFunc(*r, at, func(c comeback, at time.Time) int { return c.at.Compare(at) })
	if found {
		(*r)[i].n++
		return
	}
	*r = slices.Insert(*r, i, comeback{at, 1})
	if len(*r) > mostReturns {
		r.merge()
	}
}

// merge joins pairs of neighbours at the later of their instants.
func (r *returns) merge() {
	kept := (*r)[:0]
	for pair := range slices.Chunk(*r, 2) {
		last := pair[len(pair)-1]
		for _, c := range pair[:len(pair)-1] {
			last.n += c.n
		}
		kept = append(kept, last)
	}
	*r = kept
}

// take removes and returns the units that are refilled by now.
func (r *returns) take(now time.Time) (n int64) {
	i := 0
	for ; i < len(*r) && !(*r)[i].at.After(now); i++ {
		n += (*r)[i].n
	}
	*r = slices.Delete(*r, 0, i)
	return n
}

// next returns when the next units are refilled; ok is false if there are none.
func (r *returns) next() (time.Time, bool) {
	if len(*r) == 0 {
		return time.Time{}, false
	}
	return (*r)[0].at, true
}
