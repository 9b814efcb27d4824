// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

// entry is units spent at one instant.
type entry struct {
	at, units int64
	words     int // how many words of the ring it takes, as read
}

// ring reads and writes the entries of a state's Ring, oldest first. An entry
// is one word, its instant in the upper 52 bits and its units in 11 below, or
// two, the second holding the units where those are more than fit. Bit 0 tells
// a second word.
type ring struct{ s *State }

const manyUnits = 1<<11 - 1

// word returns where the i-th word from the oldest is.
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
	e := entry{at: int64(w >> 12), units: int64(w >> 1 & manyUnits), words: 1}
	if e.units == manyUnits {
		e.units, e.words = int64(*r.word(i + 1)>>1), 2
	}
	return e
}

// put writes e from the i-th word on and returns how many words that took.
func (r ring) put(i int, e entry) int {
	if e.units < manyUnits {
		*r.word(i) = uint64(e.at)<<12 | uint64(e.units)<<1
		return 1
	}
	*r.word(i) = uint64(e.at)<<12 | manyUnits<<1
	*r.word(i + 1) = uint64(e.units)<<1 | 1
	return 2
}

func (e entry) size() int {
	if e.units < manyUnits {
		return 1
	}
	return 2
}

// drop forgets the oldest entry, which is e.
func (r ring) drop(e entry) {
	r.s.Len -= e.words
	r.s.A -= e.units
	if r.s.Head += e.words; r.s.Head >= len(r.s.Ring) {
		r.s.Head -= len(r.s.Ring)
	}
}

// unshift puts e before the oldest, in room that drop has just left.
func (r ring) unshift(e entry) {
	n := e.size()
	if r.s.Head -= n; r.s.Head < 0 {
		r.s.Head += len(r.s.Ring)
	}
	r.s.Len += n
	r.s.A += e.units
	r.put(0, e)
}

// add appends e, to the newest entry if that is of the same instant. A ring
// without room is replaced by a larger one, of at most most words.
func (r ring) add(e entry, most int) {
	s := r.s
	s.A += e.units
	if s.Len > 0 {
		i := s.Len - 1
		if *r.word(i)&1 == 1 {
			i--
		}
		if newest := r.entry(i); newest.at == e.at {
			s.Len = i
			e.units += newest.units
		}
	}
	if need := s.Len + e.size(); need > len(s.Ring) {
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

// take takes back units of the entry that holds those spent at instant at: the
// first that is not older or, if exact, only the one of that very instant. It
// returns how many that entry had.
func (r ring) take(at, units int64, exact bool) int64 {
	s := r.s
	for i := 0; i < s.Len; {
		e := r.entry(i)
		if e.at < at {
			i += e.words
			continue
		}
		if exact && e.at != at {
			return 0
		}
		back := min(units, e.units)
		s.A -= back
		write := i
		if e.units > back {
			write += r.put(i, entry{at: e.at, units: e.units - back})
		}
		for i += e.words; i < s.Len; i++ {
			*r.word(write) = *r.word(i)
			write++
		}
		s.Len = write
		return back
	}
	return 0
}
