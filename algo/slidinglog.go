// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
)

// slidingLog remembers when units were spent, oldest first, and forgets them a
// Window later: never more than Quota in any Window.
//
// As a histogram it merges neighbouring entries into the newer one's instant
// when together they have at most 1/(Precision−1) of the units that are newer
// than both (Datar, Gionis, Indyk, Motwani 2002). Units are then forgotten late,
// never early, so it admits no more than the log; and only those of the oldest
// entry can be late, so a denied cost c means that more than
// (1−1/(Precision−1))·(Quota−c) units do count. It merges only once its
// entries reach a mark, so up to a Quota of 2·Precision−1 it is the exact log.
//
// State: Ring holds the entries, A the sum of their units, B the words at which
// a histogram merges next; Idle is a Window behind the newest entry.
type slidingLog struct{}

// mergeMark is how many words a histogram has before it first merges.
const mergeMark = 64

func (slidingLog) first(*sluice.Term, *State, int64) {}

// instant returns that of the newest entry.
func (slidingLog) instant(t *sluice.Term, s *State) int64 { return s.Idle - t.Micros }

// expire forgets entries that are a Window old at now. The ring's words stay
// as they are.
func (slidingLog) expire(t *sluice.Term, s *State, now int64) {
	r := ring{s}
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
	return seen.A
}

func (l slidingLog) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	from := max(now, l.instant(t, s))
	over := s.A + cost - t.Quota // units that must be forgotten first
	at := from
	r := ring{s}
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
	reserved := s.Reserved || at > now
	if !s.Zero() {
		at = max(at, l.instant(t, s))
	}
	l.expire(t, s, at)
	words := logWords(t)
	if t.Algorithm == sluice.SlidingHistogram {
		l.merge(t, s)
		words = min(words, int(max(s.B, mergeMark))+1) // an entry of two from below the mark
	}
	ring{s}.add(entry{at: at, units: cost}, words)
	s.Idle = at + t.Micros
	s.Reserved = reserved && at > now
}

// logWords is the most words that a ring of t can need, if that is known.
func logWords(t *sluice.Term) int {
	return int(min(t.Quota+t.Debt, 1<<30))
}

// record counts a denied cost at now: the log keeps the newest units, Quota of
// them, or as many as it has where there is debt, which denials must not pay.
func (l slidingLog) record(t *sluice.Term, s *State, now, cost int64) {
	cost = min(cost, t.Quota)
	if !s.Zero() {
		l.expire(t, s, max(now, l.instant(t, s)))
	}
	keep := max(t.Quota, s.A) - cost
	r := ring{s}
	for s.A > keep {
		e := r.entry(0)
		over := s.A - keep
		r.drop(e)
		if e.units > over {
			r.unshift(entry{at: e.at, units: e.units - over})
		}
	}
	l.spend(t, s, now, now, cost)
}

// merge merges neighbours if the ring has reached its mark, and sets the next.
func (slidingLog) merge(t *sluice.Term, s *State) {
	if s.Len < int(max(s.B, mergeMark)) {
		return
	}
	r := ring{s}
	words, newer := s.Len, s.A
	oldest := r.entry(0)
	write := 0
	for i := oldest.words; i < words; {
		e := r.entry(i)
		i += e.words
		both := oldest.units + e.units
		if both <= (newer-both)/int64(t.Precision-1) {
			oldest = entry{at: e.at, units: both}
			continue
		}
		newer -= oldest.units
		write += r.put(write, oldest)
		oldest = e
	}
	write += r.put(write, oldest)
	s.Len = write
	s.B = int64(write + max(mergeMark/2, write/8))
}

func (l slidingLog) refund(t *sluice.Term, s *State, now, at, _, units int64) int64 {
	if s.Zero() {
		return 0
	}
	now = max(now, l.instant(t, s))
	l.expire(t, s, now)
	if at <= now-t.Micros {
		return 0 // a merged entry may still hold them, but another's units too
	}
	back := ring{s}.take(at, units, t.Algorithm == sluice.SlidingLog)
	if s.Len == 0 && !s.Reserved {
		s.clear()
	}
	return back
}

func (slidingLog) horizon(t *sluice.Term) int64 { return t.Micros + maxWait }
