// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package algo decides. Given limits, the states of their keys, an instant and
// a cost, it says what is allowed and what the states become: no clock, no I/O,
// no locks. Every store runs these functions or a script that equals them, so
// the same requests at the same instants have the same outcome everywhere.
//
// Time is an int64 of µs since 1970, never negative. All arithmetic is on
// integers with carried remainders; nothing is rounded in a decision.
package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// State is what a store keeps for one key under one limit. The zero State
// means that the key has spent nothing. What A and B hold is the algorithm's own
// business; a store needs to know only [Shape]. It is a value; its ring belongs to one
// goroutine at a time.
type State struct {
	// Idle is the instant from which the key is fully refilled, so that the state may be
	// dropped without any loss, in microseconds since 1970; 0 if nothing is spent.
	Idle int64
	// A and B are microseconds or units, as the algorithm has it.
	A, B int64
	// Reserved says that the state's own instant lies ahead because of a
	// reservation: an earlier take is decided no earlier than that.
	Reserved bool
	// By is the limit under which the state was written, of the same scope,
	// name and form as the item's; nil means the item's own.
	By *sluice.Term
	// Since and Last belong to buckets that several limits use, or in which
	// units are reserved; elsewhere they are 0. A receipt older than Since is of
	// another limit, and while it lies ahead nothing is decided earlier: to a
	// balance that owes nothing a store gives the instant of the decision once it
	// has met several limits of the name, all those of the request included. From
	// Last on a faster limit's rate counts; while it lies ahead, units are
	// reserved until then. Where units come back in intervals it is 1 or 0.
	Since, Last int64
	// fill, if not 0, is what a limit sees that starts with less, set for a
	// decision and never kept: the instant before which a pre-filled counter's
	// window is full, or that at which a bucket has earned all, with its remainder.
	fill, fillRem int64

	// Ring is a circular buffer of Len words from Head on; its length is its
	// capacity. Nil in states of a fixed size.
	Ring []uint64
	// Head is the index of the first word of Ring, and Len how many words it has.
	Head, Len int
}

// Zero reports whether s means that the key has spent nothing.
func (s *State) Zero() bool { return s.Idle == 0 }

// Item is one limit of a request, with the states of its key. It belongs to one
// goroutine at a time.
type Item struct {
	Term *sluice.Term
	Cost int64 // units
	// Held is that of the request's charge, in units.
	Held int64
	// Start is the instant, in microseconds since 1970, at which the store first met a limit of this scope
	// and name: what a rule withholds at its start counts from there. Zero
	// means long ago.
	Start int64
	// Void is the instant, in microseconds since 1970, up to which receipts of the key give
	// nothing back, as the key was reset or added to since they were made; 0 if there are none. [Decide] changes it
	// for those operations, and reads it for refunds. It may be forgotten [Horizon]
	// less [sluice.MaxWait] after that instant.
	Void int64
	// State is the one of Term's form. It is read and changed by [Decide]. If
	// the Ring must grow it is replaced by a new slice.
	State State
	// Others are the states that the key has in other forms under the same
	// name, 4 in all, each with By set. What one limit admits is
	// counted in all of them.
	Others []State
	// Written is set by [Decide] if State has changed and must be kept, with
	// Others if there are any. A State that is Zero then must be forgotten.
	Written bool

	wait  int64        // how far from now Cost fits, before anything is written
	spent int64        // units that were counted, or negative given back
	met   bool         // the limit has noted in State that it has come to see it
	on    *sluice.Term // the limit in whose state Term counts, where that is another's
}

// Denied reports, after a take or reservation that was denied, whether it is this
// limit that has too little left for now. A cost that it never holds does not
// say that.
func (it *Item) Denied() bool { return it.wait > 0 && it.wait < never }

// HasRing reports whether states of t's form may have a Ring.
func HasRing(t *sluice.Term) bool {
	return t.Burst == 0 && !blocks(t) && t.Kind != compiled.FixedWindow && (t.Kind != compiled.SlidingCounter || t.Behind != 1)
}

// Plain reports whether s, the state of a bucket, is one that Idle and A
// describe: nothing is reserved, and its writer is the only limit that matters.
func (s *State) Plain() bool { return s.Since == 0 && s.Last == 0 }
