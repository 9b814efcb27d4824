// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/logentry"
)

// entry is units spent at one instant.
type entry struct {
	at, units int64
	denied    bool // the units were denied, but count
	words     int  // size in words, as read
}

// ring reads and writes the entries of a state's Ring, oldest first, in a format of
// package logentry.
type ring struct {
	s      *State
	format logentry.Format
	last   int64 // an instant no earlier than the newest entry's
}

func formatOf(t *sluice.Term) logentry.Format {
	return logentry.Of(t.Kind == compiled.SlidingHistogram, t.Micros)
}

// ringOf returns the ring of s, a state of t.
func ringOf(t *sluice.Term, s *State) ring {
	return ring{s, formatOf(t), s.Idle - t.Micros}
}

// word returns the address of the i-th word, counted from the oldest.
func (r ring) word(i int) *uint64 {
	i += r.s.Head
	if i >= len(r.s.Ring) {
		i -= len(r.s.Ring)
	}
	return &r.s.Ring[i]
}

// entry returns the entry whose first word is the i-th.
func (r ring) entry(i int) entry {
	w := *r.word(i)
	many := r.format.Many()
	e := entry{at: r.format.At(w, r.last), units: int64(w >> 1 & many), words: 1}
	switch uint64(e.units) {
	case many:
		second := *r.word(i + 1)
		e.denied = second&logentry.Denied != 0
		e.units, e.words = int64(second&^logentry.Denied>>1), 2
	case 0:
		e.units, e.denied = 1, true
	}
	return e
}

// put writes e from the i-th word on and returns its size in words.
func (r ring) put(i int, e entry) int {
	first, second := r.format.Pack(e.at, e.units, e.denied)
	*r.word(i) = first
	if second == 0 {
		return 1
	}
	*r.word(i + 1) = second
	return 2
}

// size returns the size of e in words.
func (r ring) size(e entry) int {
	if _, second := r.format.Pack(e.at, e.units, e.denied); second != 0 {
		return 2
	}
	return 1
}

// drop removes the oldest entry, which is e.
func (r ring) drop(e entry) {
	r.s.Len -= e.words
	r.s.A -= e.units
	if r.s.Head += e.words; r.s.Head >= len(r.s.Ring) {
		r.s.Head -= len(r.s.Ring)
	}
}

// shrink takes units from the oldest entry, e, which has more units.
func (r ring) shrink(e entry, units int64) {
	rest := entry{at: e.at, units: e.units - units}
	r.drop(entry{units: units, words: e.words - r.size(rest)})
	r.put(0, rest)
}

// newest returns the position of the newest entry's first word.
func (r ring) newest() int {
	i := r.s.Len - 1
	if *r.word(i)&1 == 1 {
		i--
	}
	return i
}

// add appends e, or adds it to the newest entry if that has the same instant. It replaces a
// full ring by a larger one, of at most most words.
func (r ring) add(e entry, most int) {
	s := r.s
	s.A += e.units
	if s.Len > 0 {
		i := r.newest()
		if newest := r.entry(i); newest.at == e.at && newest.denied == e.denied {
			s.Len = i
			e.units += newest.units
		}
	}
	if need := s.Len + r.size(e); need > len(s.Ring) {
		r.grow(max(need, min(len(s.Ring)+max(len(s.Ring)/2, 4), most)))
	}
	s.Len += r.put(s.Len, e)
}

func (r ring) grow(words int) {
	s := r.s
	larger := make([]uint64, words)
	n := copy(larger, s.Ring[min(s.Head, len(s.Ring)):min(s.Head+s.Len, len(s.Ring))])
	copy(larger[n:], s.Ring[:s.Len-n])
	s.Ring, s.Head = larger, 0
}

// take takes units out of the entry that holds the units spent at instant at: the first
// entry that is not older or, if exact, the entry of that instant. It returns the number of
// units that it took out.
func (r ring) take(at, units int64, exact bool) int64 {
	s := r.s
	write, back := -1, int64(0) // write: where the next words move to, once some are gone
	for i := 0; i < s.Len; {
		e := r.entry(i)
		if n := min(units-back, e.units); n > 0 && !e.denied && e.at >= at && (e.at == at || !exact && back == 0) {
			if write < 0 {
				write = i
			}
			if back, s.A = back+n, s.A-n; e.units > n {
				write += r.put(write, entry{at: e.at, units: e.units - n})
			}
			i += e.words
			continue
		}
		if write < 0 && (e.at > at || back == units) {
			return back
		}
		if write >= 0 {
			r.move(write, i, e.words)
			write += e.words
		}
		i += e.words
	}
	if write >= 0 {
		s.Len = write
	}
	return back
}

// move copies words within the ring, towards its head.
func (r ring) move(to, from, words int) {
	for k := range words {
		*r.word(to + k) = *r.word(from + k)
	}
}
