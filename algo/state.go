// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package algo decides requests. From limits, the states of their keys, an instant and
// a cost it computes the decision and the new states. It has no clock, no I/O and
// no locks. Every store runs these functions or a script that equals them, so
// the same requests at the same instants have the same outcome everywhere.
//
// Time is an int64 of µs since 1970, never negative. All arithmetic is on
// integers with carried remainders; no decision rounds.
package algo

import (
	"github.com/sluicegate/sluice"
)

// State is the state of one key under one limit, which a store keeps. The zero State is that
// of a key that has spent nothing. Each algorithm defines A and B in its own way.
// State is a value; its ring belongs to one goroutine at a time.
type State struct {
	// Idle is the instant from which the key is fully refilled, so that the state may be
	// dropped without any loss, in microseconds since 1970; 0 if nothing is spent.
	Idle int64
	// A and B are microseconds or units, depending on the algorithm.
	A, B int64
	// Reserved says that the state's own instant lies ahead because of a reservation: an
	// earlier take is decided as of that instant.
	Reserved bool
	// By is the limit that wrote the state, with the scope, name and form of the item's
	// limit; nil means the item's own.
	By *sluice.Term
	// Since and Last belong to buckets that several limits use, or in which
	// units are reserved; elsewhere they are 0. A receipt older than Since is of
	// another limit. While Since lies ahead, no request is decided before it. Once a store
	// has met several limits of the name, those of the request included, it sets Since
	// of a balance that owes nothing to the instant of the decision. From
	// Last on a faster limit's rate counts; while Last lies ahead, units are
	// reserved until then. If units come back in intervals, Last is 1 or 0.
	Since, Last int64
	// fill, if not 0, belongs to a limit that starts with fewer units. It is set for a
	// decision and never kept: the instant before which a pre-filled counter's
	// window is full, or at which a bucket has earned all units, with its remainder.
	fill, fillRem int64

	// Ring is a circular buffer of Len words from Head on; its length is its
	// capacity. Nil in states of a fixed size.
	Ring []uint64
	// Head is the index of the first word in Ring, and Len the number of words.
	Head, Len int
}

// Zero reports whether s means that the key has spent nothing.
func (s *State) Zero() bool { return s.Idle == 0 }

// Item is one limit of a request, with the states of its key. It belongs to one
// goroutine at a time.
type Item struct {
	Term *sluice.Term
	Cost int64 // units
	// Counted is the Counted of the request's charge, in units.
	Counted int64
	// Start is the instant, in microseconds since 1970, at which the store first met a
	// limit of this scope and name: units withheld at a rule's start are counted from
	// there. Zero means long ago.
	Start int64
	// Void is the instant, in microseconds since 1970, up to which receipts of the key give
	// nothing back, because the key was reset or added to after them; 0 if it was not.
	// [Decide] changes it for those operations, and reads it for refunds. It may be forgotten
	// [Horizon] minus [sluice.MaxWait] after that instant.
	Void int64
	// State is the state of Term's form. [Decide] reads and changes it. If
	// the Ring must grow, Decide replaces it by a new slice.
	State State
	// Others are the states of the key in other forms under the same name, each with By
	// set. With State there are at most 4. Units that one limit admits count in all of them.
	Others []State
	// Holds are the holds of the key under the limit. A store that keeps holds sets them for
	// a request that names one and for a key that has some, and keeps them after [Decide].
	Holds *Holds
	// Written is set by [Decide] if State has changed and must be kept, with
	// Others if there are any. A State that is Zero then must be forgotten.
	Written bool

	wait  int64        // time until Cost fits, before any write
	spent int64        // counted units, negative if given back
	met   bool         // meet has changed State
	on    *sluice.Term // the other limit in whose state Term counts, if any
}

// Denied reports, after a denied take or reservation, whether this limit has too few
// units left for now. It is false for a cost that the limit never holds.
func (it *Item) Denied() bool { return it.wait > 0 && it.wait < never }
