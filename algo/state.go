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
)

// State is what a store keeps for one key under one limit. The zero State
// means never seen. What A and B hold is the algorithm's own business; a store
// needs to know only [Shape].
type State struct {
	// Idle is the instant from which the state is as never seen and may be
	// dropped without any loss.
	Idle int64
	A, B int64
	// Reserved says that the state's own instant lies ahead because of a
	// reservation: who comes earlier is decided no earlier than that.
	Reserved bool

	// Ring is a circular buffer of Len words from Head on; its length is its
	// capacity. Nil in states of a fixed size.
	Ring      []uint64
	Head, Len int
}

// Zero reports whether s means never seen.
func (s *State) Zero() bool { return s.Idle == 0 }

// Item is one limit of a request, with the state of its key.
type Item struct {
	Term *sluice.Term
	Cost int64
	// State is read and changed by [Decide]. If the Ring must grow it is
	// replaced by a new slice.
	State State
	// Written is set by [Decide] if State has changed and must be kept. A
	// State that is Zero then must be forgotten.
	Written bool

	wait int64 // how far from now Cost fits, before anything is written
}

// Denied reports, after a take or reservation that was denied, whether it is this
// limit that has too little left for now. A cost that it never holds does not
// say that.
func (it *Item) Denied() bool { return it.wait > 0 && it.wait < never }

// Form is the size of a term's states.
type Form uint8

// The forms.
const (
	FormWord Form = iota // Idle, and A below 1<<16: see longestWord
	FormPair             // Idle, Reserved, and A
	FormDuo              // Idle, Reserved, and A and B below 1<<32
	FormTrio             // Idle, Reserved, and A and B
	FormRing             // all of it
)

// longestWord is how far ahead of the clock, in µs, the Idle of a FormWord may be
// at most, reservations apart: stores keep it in fewer bits than that of others.
// Only a bucket that refills for longer than a year and starts with less than
// its burst is beyond that.
const longestWord = int64(sluice.MaxRefill / 1000)

// Shape returns the form that every state of t has.
func Shape(t *sluice.Term) Form {
	switch t.Algorithm {
	case sluice.TokenBucket, sluice.LeakyBucket:
		if t.Refill == sluice.Continuous && t.Rate.Den <= 1<<16 && (t.Withheld == 0 || t.Most.Micros+t.Micros < longestWord) {
			return FormWord
		}
		return FormPair
	case sluice.FixedWindow:
		return FormPair
	case sluice.SlidingCounter:
		switch {
		case t.SubWindows > 1:
			return FormRing
		case t.Quota+t.Debt < 1<<32:
			return FormDuo
		}
		return FormTrio
	default:
		return FormRing
	}
}
