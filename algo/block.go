// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// block counts denials. A key that the other limits of its charge deny Quota times
// in a window is blocked for a time from the last of these denials. The first denial opens
// the window. A blocked key counts no denial, so further requests do not prolong the block.
// A block ignores units: any cost fits unless the key is blocked.
//
// State: A is the number of denials in the window, 0 while the key is blocked; B is the
// start of the window or the block, and Idle its end. All blocks of one name share the
// state, so that a key which is blocked under one is blocked under all.
type block struct{ windows }

func blocks(t *sluice.Term) bool { return t.Kind == compiled.Block }

// blocked reports whether s is that of a blocked key.
func blocked(s *State) bool { return !s.Zero() && s.A == 0 }

func (block) arrive(*sluice.Term, *State) {} // nothing is reserved in it

// stepped compares with the start: nothing is reserved in s, so it began no later than now.
func (block) stepped(_ *sluice.Term, s *State, now int64) bool { return s.B > now }

// clamp moves the window or block to now. Its length stays the same.
func (block) clamp(_ *sluice.Term, s *State, now int64) { s.Idle, s.B = s.Idle-(s.B-now), now }

func (block) instant(*sluice.Term, *State) int64 { return 0 }

// pending makes every request wait for the end of the block.
func (block) pending(_ *sluice.Term, s *State, _ int64) bool { return blocked(s) }

func (block) counted(*sluice.Term, *State, int64) int64 { return 0 }

func (block) earliest(_ *sluice.Term, s *State, now, _ int64) int64 {
	if blocked(s) {
		return s.Idle
	}
	return now
}

func (block) spend(*sluice.Term, *State, int64, int64, int64) {}

func (block) insert(*sluice.Term, *State, int64, int64) {}

func (block) deny(*sluice.Term, *State, int64, int64) bool { return false } // see countDenial

func (block) refund(*sluice.Term, *State, int64, grant) int64 { return 0 }

func (block) give(*sluice.Term, *State, int64, int64) int64 { return 0 }

func (block) horizon(t *sluice.Term) int64 {
	return max(t.Micros, t.Block.For.Microseconds()) + maxWait
}

// countDenial counts a denied request under the blocks of those charges in which another
// limit denies. A key is not blamed for the denials of another key.
func (r *round) countDenial() {
	items := r.items
	for n := range r.req.Charges() {
		size := r.req.Nth(n).Plan.Len()
		if deniesUnits(items[:size]) {
			for i := range items[:size] {
				if it := &items[i]; blocks(it.Term) {
					it.countDenial(r.now)
				}
			}
		}
		items = items[size:]
	}
}

// deniesUnits reports whether a limit of a charge denies and no block does.
func deniesUnits(items []Item) (denies bool) {
	for i := range items {
		if it := &items[i]; it.wait > 0 {
			if blocks(it.Term) {
				return false
			}
			denies = true
		}
	}
	return denies
}

// countDenial counts one denial, which may be the one that blocks the key.
func (it *Item) countDenial(now int64) {
	t, s := it.Term, &it.State
	if s.Zero() || now-s.B >= t.Micros {
		*s = State{B: now}
	}
	if s.A++; s.A < t.Quota {
		s.Idle = max(s.Idle, s.B+t.Micros) // a limit with a longer window may have opened it
	} else {
		it.wait = t.Block.For.Microseconds()
		*s = State{B: now, Idle: now + it.wait}
	}
	s.By, it.Written = nil, true
}
