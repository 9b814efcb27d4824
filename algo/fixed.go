// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import "github.com/sluicegate/sluice"

// fixedWindow counts units per window. The window is aligned to the clock or the calendar,
// or opened by a key's first request. In the window in which the rule starts,
// InitialDeficit units count from the beginning.
//
// State: A is the count, Idle the end of the window.
type fixedWindow struct{ windows }

// windowOf returns the window that holds at, for a key without a window.
func windowOf(t *sluice.Term, at int64) (start, end int64) {
	switch {
	case t.Calendar != sluice.NoCalendar:
		return CalendarWindow(t, at)
	case t.OnFirst:
		return at, at + t.Micros
	default:
		start = at - at%t.Micros
		return start, start + t.Micros
	}
}

// floor makes s the state as seen by a limit that withholds units in its first window.
func (w fixedWindow) floor(t *sluice.Term, s *State, now, start int64) {
	_, end := windowOf(t, start)
	if now >= end {
		return
	}
	if s.fill = end; s.Zero() {
		s.Idle = end
	}
}

// used returns the units that count in the state's window. With fill, that is the first
// window of the rule or a window after it, if the clock stepped back or units are reserved.
func (fixedWindow) used(t *sluice.Term, s *State) int64 {
	if s.fill != 0 && !s.Reserved {
		return s.A + t.InitialDeficit
	}
	return s.A
}

func (fixedWindow) arrive(_ *sluice.Term, s *State) {
	if s.A == 0 {
		s.clear()
	}
}

func (w fixedWindow) stepped(t *sluice.Term, s *State, now int64) bool {
	longest := w.horizon(t) - maxWait
	at := s.Idle - longest
	return at > now && (tooFar(s, at, now, longest) || stuck(s, w.earliest(t, s, now, 1), now, longest))
}

func (w fixedWindow) clamp(t *sluice.Term, s *State, now int64) { clampWindow(w, t, s, now) }

// instant returns the start of the window.
func (fixedWindow) instant(t *sluice.Term, s *State) int64 {
	if t.Calendar != sluice.NoCalendar {
		start, _ := CalendarWindow(t, s.Idle-1)
		return start
	}
	return s.Idle - t.Micros
}

func (w fixedWindow) counted(t *sluice.Term, s *State, now int64) int64 {
	if now >= s.Idle {
		return 0
	}
	return w.used(t, s)
}

func (w fixedWindow) earliest(t *sluice.Term, s *State, now, cost int64) int64 {
	switch {
	case cost > t.Quota-w.used(t, s):
		return s.Idle
	case s.Reserved:
		return max(now, w.instant(t, s))
	default:
		return now
	}
}

func (w fixedWindow) spend(t *sluice.Term, s *State, now, at, cost int64) {
	if s.Zero() || at >= s.Idle {
		start, end := windowOf(t, at)
		s.A, s.Idle, s.Reserved = 0, end, start > now
	}
	s.A += cost
	s.By = nil
}

// deny counts cost up to the quota. A window that the first request opened begins anew
// then: it ends after a Window without requests.
func (w fixedWindow) deny(t *sluice.Term, s *State, now, cost int64) bool {
	if s.Reserved {
		return false
	}
	cost = min(cost, t.Quota)
	if s.Zero() || now >= s.Idle {
		w.spend(t, s, now, now, cost)
		return true
	}
	room := t.Quota - w.used(t, s)
	switch {
	case cost < room:
		s.A += cost
	case t.OnFirst:
		s.A, s.Idle = max(s.A, t.Quota), now+t.Micros
	case room <= 0:
		return false
	default:
		s.A += room
	}
	s.By = nil
	return true
}

// insert has nothing to do: the window at that instant is not kept, because all later
// requests are decided in the reserved one.
func (fixedWindow) insert(*sluice.Term, *State, int64, int64) {}

func (w fixedWindow) refund(t *sluice.Term, s *State, _ int64, g grant) int64 {
	if s.Zero() || g.at >= s.Idle || g.at < w.instant(t, s) {
		return 0
	}
	back := min(g.units, s.A)
	s.A -= back
	if s.A == 0 && !s.Reserved {
		s.clear()
	}
	return back
}

func (fixedWindow) give(_ *sluice.Term, s *State, _, units int64) int64 {
	if s.Zero() {
		return 0
	}
	back := min(units, s.A)
	if s.A -= back; s.A == 0 && !s.Reserved {
		s.clear()
	}
	return back
}

func (fixedWindow) horizon(t *sluice.Term) int64 {
	if t.Calendar != sluice.NoCalendar {
		return t.Micros + calendarSlack + maxWait
	}
	return t.Micros + maxWait
}

// wordTake is [WordTake].
func (w fixedWindow) wordTake(t *sluice.Term, idle, count, now, cost int64, d *sluice.Decision) (newIdle, newCount int64) {
	now = clamp(now)
	s := State{Idle: idle, A: count}
	switch {
	case idle <= now:
		s = State{}
	case w.stepped(t, &s, now): // see clampWindow
		_, s.Idle = windowOf(t, now)
		s.A = t.Quota
		idle, count = s.Idle, s.A
	}
	at, left := now, t.Quota-s.A
	switch {
	case cost > t.Quota:
		at = never
	case cost > left:
		at = s.Idle
	}
	*d = sluice.Decision{Remaining: max(left, 0), ResetAfter: micros(max(s.Idle-now, 0)), At: sluice.Instant(now), Due: sluice.Instant(now)}
	switch {
	case at == never:
		d.RetryAfter, d.TooLarge = retryAfter(never)
		return idle, count
	case at > now:
		d.RetryAfter, d.TooLarge = retryAfter(at - now)
		return idle, count
	}
	d.Allowed, d.Spent = true, cost
	if cost == 0 {
		return idle, count
	}
	w.spend(t, &s, now, now, cost)
	d.Remaining, d.ResetAfter = t.Quota-s.A, micros(s.Idle-now)
	return s.Idle, s.A
}
