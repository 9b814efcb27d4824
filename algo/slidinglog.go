// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// slidingLog remembers when units were spent, oldest first, and forgets them a
// Window later: never more than Quota in any Window.
//
// As a histogram it merges neighbouring entries into the newer one's instant
// when together they have at most 1/(Precision−2) of the units that are newer
// than both (Datar, Gionis, Indyk, Motwani 2002), less two. Units are then forgotten
// late, never early, so it admits no more than the log. Only those of the oldest
// entry can be late, u of them with n newer ones: as n ≥ (Precision−2)·u, of the n+u
// more than 1−1/(Precision−1) do count. So a denied cost c means that more than
// (1−1/(Precision−1))·(Quota−c) units do count. Two entries of one unit are merged
// below 2·Precision−2 newer ones: up to a Quota of 2·Precision−1 it is the exact log.
//
// State: Ring holds the entries, A the sum of their units, B the words at which
// a histogram merges next; Idle is a Window behind the newest entry.
type slidingLog struct{ windows }

// logs reports whether t keeps entries.
func logs(t *sluice.Term) bool {
	return t.Kind == compiled.SlidingLog || t.Kind == compiled.SlidingHistogram
}

// mergeMark is how many words a histogram has before it first merges, and mergeSlack
// how many more it has at least before it merges again.
const (
	mergeMark  = 64
	mergeSlack = 32
)

func (slidingLog) arrive(t *sluice.Term, s *State) {
	if s.Len == 0 {
		s.clear()
		return
	}
	r := ringOf(t, s)
	s.Idle = r.entry(r.newest()).at + t.Micros
}

func (l slidingLog) stepped(t *sluice.Term, s *State, now int64) bool {
	at := l.instant(t, s)
	return at > now && (tooFar(s, at, now, t.Micros) || stuck(s, l.earliest(t, s, now, 1), now, t.Micros))
}

func (l slidingLog) clamp(t *sluice.Term, s *State, now int64) { clampWindow(l, t, s, now) }

// known returns the admitted units with their instants. Units that a histogram
// has merged may be as old as what follows the entry before.
func (slidingLog) known(t *sluice.Term, s *State) []known {
	var list []known
	r, before := ringOf(t, s), int64(0)
	for i := 0; i < s.Len; {
		e := r.entry(i)
		i += e.words
		k := known{e.at, e.units}
		if t.Kind == compiled.SlidingHistogram && s.B > 0 {
			k.at = max(before, e.at-t.Micros) + 1
		}
		if before = e.at; !e.denied {
			list = append(list, k)
		}
	}
	return list
}

// instant returns that of the newest entry.
func (slidingLog) instant(t *sluice.Term, s *State) int64 { return s.Idle - t.Micros }

// expire forgets entries that are a Window old at now. The ring's words stay
// as they are.
func (slidingLog) expire(t *sluice.Term, s *State, now int64) {
	r := ringOf(t, s)
	for s.Len > 0 {
		e := r.entry(0)
		if e.at > now-t.Micros {
			return
		}
		r.drop(e)
	}
}

func (l slidingLog) counted(t *sluice.Term, s *State, now int64) int64 {
	if s.Zero() {
		return 0
	}
	seen := *s
	l.expire(t, &seen, max(now, l.instant(t, s)))
	if seen.A <= t.Quota || !t.CountDenied {
		return seen.A
	}
	// Of denials only the newest Quota units have a say: none in what is owed.
	r, denied := ringOf(t, &seen), int64(0)
	for i := 0; i < seen.Len; {
		e := r.entry(i)
		if i += e.words; e.denied {
			denied += e.units
		}
	}
	return max(seen.A-denied, t.Quota)
}

func (l slidingLog) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	from := max(now, l.instant(t, s))
	over := s.A + cost - t.Quota // units that must be forgotten first
	at := from
	r := ringOf(t, s)
	for i := 0; i < s.Len && (over > 0 || r.entry(i).at <= from-t.Micros); {
		e := r.entry(i)
		at = max(at, e.at+t.Micros)
		over -= e.units
		i += e.words
	}
	if at == from && !s.Reserved {
		return now // where the clock stepped back, the state's own instant is now
	}
	return at
}

func (l slidingLog) spend(t *sluice.Term, s *State, now, at, cost int64) {
	l.add(t, s, now, entry{at: at, units: cost})
}

// add adds an entry, no earlier than the newest is.
func (l slidingLog) add(t *sluice.Term, s *State, now int64, e entry) {
	reserved := s.Reserved || e.at > now
	if !s.Zero() {
		e.at = max(e.at, l.instant(t, s))
	}
	l.expire(t, s, e.at)
	words := RingWords(t)
	if t.Kind == compiled.SlidingHistogram {
		l.merge(t, s)
		words = min(words, int(max(s.B, mergeMark))+1) // an entry of two from below the mark
	}
	ringOf(t, s).add(e, words)
	s.Idle = e.at + t.Micros
	s.Reserved = reserved && e.at > now
	s.By = nil
}

func (l slidingLog) insert(t *sluice.Term, s *State, at, cost int64) {
	l.expire(t, s, at)
	if t.Kind == compiled.SlidingHistogram {
		l.merge(t, s)
	}
	r := ringOf(t, s)
	var newer []entry
	for s.Len > 0 {
		i := r.newest()
		e := r.entry(i)
		if e.at <= at {
			break
		}
		newer = append(newer, e)
		s.Len, s.A = i, s.A-e.units
	}
	r.add(entry{at: at, units: cost}, RingWords(t))
	for i := range newer {
		r.add(newer[len(newer)-1-i], RingWords(t))
	}
}

// RingWords returns the most words that the ring of a log of t needs, if
// nothing else counts in it.
func RingWords(t *sluice.Term) int {
	words := t.Quota + t.Debt
	if t.CountDenied {
		words += deniedMark(t)
	}
	return int(min(words, 1<<30))
}

// deniedMark is how many words a log may have before it forgets denials that
// are too old to matter.
func deniedMark(t *sluice.Term) int64 { return 2*t.Quota + 16 }

// deny counts a denied cost at now.
func (l slidingLog) deny(t *sluice.Term, s *State, now, cost int64) bool {
	cost = min(cost, t.Quota)
	if !s.Zero() {
		l.expire(t, s, max(now, l.instant(t, s)))
	}
	if t.Kind == compiled.SlidingLog {
		l.record(t, s, now, cost)
	} else {
		l.renew(t, s, now, cost)
	}
	return true
}

// renew counts a denied cost in a histogram, and forgets as many of the oldest
// units where it is full: those that stay count for longer, so it admits no more
// than if they had stayed what they were.
func (l slidingLog) renew(t *sluice.Term, s *State, now, cost int64) {
	r := ringOf(t, s)
	for over := cost - max(t.Quota-s.A, 0); over > 0; {
		e := r.entry(0)
		if e.units > over {
			r.shrink(e, over)
			break
		}
		over -= e.units
		r.drop(e)
	}
	l.add(t, s, now, entry{at: now, units: cost})
}

// record counts a denied cost in a log, at now. Only the newest Quota units have a say, so
// denials that are older are forgotten now and then. What was admitted never is:
// a limit of more units may count in the same log.
func (l slidingLog) record(t *sluice.Term, s *State, now, cost int64) {
	if int64(s.Len) >= t.Quota+t.Debt+deniedMark(t)-2 {
		l.forgetDenied(t, s, t.Quota-cost)
	}
	l.add(t, s, now, entry{at: now, units: cost, denied: true})
}

// forgetDenied drops the denials that are not among the newest keep units.
func (slidingLog) forgetDenied(t *sluice.Term, s *State, keep int64) {
	r := ringOf(t, s)
	newer, write := s.A, 0
	for i := 0; i < s.Len; {
		e := r.entry(i)
		if newer -= e.units; e.denied && newer >= keep {
			s.A -= e.units
		} else {
			r.move(write, i, e.words)
			write += e.words
		}
		i += e.words
	}
	s.Len = write
}

// merge merges neighbours if the ring has reached its mark, and sets the next.
func (slidingLog) merge(t *sluice.Term, s *State) {
	if s.Len < int(max(s.B, mergeMark)) {
		return
	}
	r := ringOf(t, s)
	words, newer := s.Len, s.A
	oldest := r.entry(0)
	write := 0
	for i := oldest.words; i < words; {
		e := r.entry(i)
		i += e.words
		both := oldest.units + e.units
		if both <= (newer-both-2)/int64(t.Precision-2) {
			oldest = entry{at: e.at, units: both}
			continue
		}
		newer -= oldest.units
		write += r.put(write, oldest)
		oldest = e
	}
	write += r.put(write, oldest)
	s.Len = write
	s.B = int64(write + max(mergeSlack, write/12))
}

func (l slidingLog) refund(t *sluice.Term, s *State, now int64, g grant) int64 {
	if s.Zero() {
		return 0
	}
	from := max(now, l.instant(t, s))
	l.expire(t, s, from)
	if g.at <= from-t.Micros {
		return 0 // a merged entry may still hold them, but another's units too
	}
	back := ringOf(t, s).take(g.at, g.units, t.Kind == compiled.SlidingLog)
	if !s.Reserved { // else later takes wait: entries that are old then count now, and are gone
		l.arrive(t, s)
	}
	return back
}

func (l slidingLog) give(t *sluice.Term, s *State, now, units int64) int64 {
	if s.Zero() {
		return 0
	}
	from := max(now, l.instant(t, s))
	l.expire(t, s, from)
	if s.Reserved {
		from = now // what is ahead is reserved
	}
	r, counts := ringOf(t, s), int64(0)
	for i := 0; i < s.Len; {
		e := r.entry(i)
		if i += e.words; e.at <= from {
			counts += e.units
		}
	}
	back, write := min(units, counts), 0
	for i, keep := 0, counts-back; i < s.Len; {
		e := r.entry(i)
		i += e.words
		if e.at <= from {
			e.units = min(e.units, keep)
			keep -= e.units
		}
		if e.units > 0 {
			write += r.put(write, e)
		}
	}
	s.Len, s.A = write, s.A-back
	if !s.Reserved {
		l.arrive(t, s)
	}
	return back
}

func (slidingLog) horizon(t *sluice.Term) int64 { return t.Micros + maxWait }
