// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
)

// slidingLog remembers when units were spent, oldest first, and forgets them a
// Window later. So it admits at most Quota in any Window.
//
// As a histogram it merges neighbouring entries into the newer one's instant
// when together they have at most 1/(Precision−2) of the units that are newer
// than both (Datar, Gionis, Indyk, Motwani 2002), less two. Units are then forgotten
// late, never early, so it admits no more than the log. Only units of the oldest
// entry can be late: u of them, beside n newer ones. As n ≥ (Precision−2)·u, more than
// 1−1/(Precision−1) of the n+u units count rightly. So a denied cost c means that more than
// (1−1/(Precision−1))·(Quota−c) units count rightly. Two entries of one unit are merged
// only below 2·Precision−2 newer units: up to a Quota of 2·Precision−1 it is the exact log.
//
// State: Ring holds the entries, A the sum of their units, B the size in words at which
// a histogram merges next; Idle is a Window after the newest entry.
type slidingLog struct{ windows }

// logs reports whether t keeps entries.
func logs(t *sluice.Term) bool {
	return t.Kind == compiled.SlidingLog || t.Kind == compiled.SlidingHistogram
}

// mergeMark is the size in words at which a histogram first merges. mergeSlack is the least
// growth in words before it merges again.
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

// known returns the admitted units with their instants. The units of a merged entry may be
// as old as the instant after the entry before.
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

// instant returns the instant of the newest entry.
func (slidingLog) instant(t *sluice.Term, s *State) int64 { return s.Idle - t.Micros }

// expire forgets entries that are a Window old at now. It does not change the words of the
// ring.
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
	// Only the newest Quota units of denials count, and never as debt.
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
	over := s.A + cost - t.Quota // units that must expire first
	at := from
	r := ringOf(t, s)
	for i := 0; i < s.Len && (over > 0 || r.entry(i).at <= from-t.Micros); {
		e := r.entry(i)
		at = max(at, e.at+t.Micros)
		over -= e.units
		i += e.words
	}
	if at == from && !s.Reserved {
		return now // if the clock stepped back, the state's own instant counts as now
	}
	return at
}

func (l slidingLog) spend(t *sluice.Term, s *State, now, at, cost int64) {
	l.add(t, s, now, entry{at: at, units: cost})
}

// add adds an entry, no earlier than the newest one.
func (l slidingLog) add(t *sluice.Term, s *State, now int64, e entry) {
	reserved := s.Reserved || e.at > now
	if !s.Zero() {
		e.at = max(e.at, l.instant(t, s))
	}
	l.expire(t, s, e.at)
	words := t.LogWords
	if t.Kind == compiled.SlidingHistogram {
		l.merge(t, s)
		words = min(words, int(max(s.B, mergeMark))+1) // an entry of two words may start below the mark
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
	r.add(entry{at: at, units: cost}, t.LogWords)
	for i := range newer {
		r.add(newer[len(newer)-1-i], t.LogWords)
	}
}

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

// renew counts a denied cost in a histogram. In a full one it forgets as many of the oldest
// units. It admits no more units for that, because the denied ones count for longer.
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

// record counts a denied cost in a log, at now. Only the newest Quota units matter, so it
// forgets older denials now and then. It never forgets admitted units: a limit with a larger
// Quota may count in the same log.
func (l slidingLog) record(t *sluice.Term, s *State, now, cost int64) {
	if s.Len >= t.LogWords-2 {
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

// merge merges neighbouring entries if the ring has reached its mark, and sets the next mark.
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
		return 0 // a merged entry may hold them, but also units of others
	}
	back := ringOf(t, s).take(g.at, g.units, t.Kind == compiled.SlidingLog)
	if !s.Reserved { // otherwise later takes wait for the reservation, by which old entries expire
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
		from = now // units ahead of now are reserved
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
