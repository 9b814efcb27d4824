// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package pacing

import (
	"slices"
	"time"
)

// mostReturns bounds how many instants of a limit are remembered.
const mostReturns = 64

// returns are the units that the client spent and will have again, whatever the
// algorithm: an answer that says when the limit is whole again says when the
// unit of its own call is back at the latest.
type returns []comeback

// comeback is how many units are back at an instant.
type comeback struct {
	at time.Time
	n  int64
}

// add notes a unit that is back at an instant.
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

// merge joins each two neighbours at the later of their instants.
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

// take removes what is back by now and returns how many units these are.
func (r *returns) take(now time.Time) (n int64) {
	i := 0
	for ; i < len(*r) && !(*r)[i].at.After(now); i++ {
		n += (*r)[i].n
	}
	*r = slices.Delete(*r, 0, i)
	return n
}

// next returns when the next units are back, if any are due.
func (r *returns) next() (time.Time, bool) {
	if len(*r) == 0 {
		return time.Time{}, false
	}
	return (*r)[0].at, true
}
