// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

// unit records the units that one request was admitted at one instant.
type unit struct {
	at      int64
	step    int   // the step of the request
	n, most int64 // units that still count: at least and at most
	denied  bool  // a denial that counts too
	full    int64 // the units up to which a denial counts
	gift    int64 // no admitted units, but the number of units given by an add

	// For a balance: the instant from which the unit drains, after units reserved before, and
	// the 1/den units by which it may have been rounded up.
	drains, rounded int64
}

// side chooses which of its two numbers a unit counts by.
type side bool

const (
	least side = false
	most  side = true
)

func (u *unit) count(s side) int64 {
	if s == most {
		return u.most
	}
	return u.n
}

// list holds units in the order of their instants.
type list []unit

// since returns the units after an instant.
func (us list) since(after int64, s side) (n int64) {
	for i := range us {
		if us[i].at > after {
			n += us[i].count(s)
		}
	}
	return n
}

// newest returns the instant of the newest unit that counts.
func (us list) newest(s side) (at int64, ok bool) {
	for i := len(us) - 1; i >= 0; i-- {
		if us[i].count(s) > 0 {
			return us[i].at, true
		}
	}
	return 0, false
}

// logFits returns the first instant at which the sum of the units in (t−W, t] is at most
// limit. Units reserved for later count too.
func (us list) logFits(window, limit, from int64, s side) int64 {
	if limit < 0 {
		return never
	}
	over := us.since(from-window, s) - limit
	for i := range us {
		if over <= 0 {
			break
		}
		if u := &us[i]; u.at > from-window {
			if n := u.count(s); n > 0 {
				over -= n
				if over <= 0 {
					return u.at + window
				}
			}
		}
	}
	return from
}

// cell returns the number of the interval of the clock that contains at.
func cell(at, length int64) int64 { return at / length }

// inCells returns the units in the intervals first to last.
func (us list) inCells(length, first, last int64, s side) (n int64) {
	for i := range us {
		if c := cell(us[i].at, length); first <= c && c <= last {
			n += us[i].count(s)
		}
	}
	return n
}

// fixedFits returns the first instant at which the window's units leave room.
func (l *account) fixedFits(v *version, from, cost int64, s side) int64 {
	for {
		if l.inWindow(v, cell(from, v.window), s)+cost <= v.quota {
			return from
		}
		from = (cell(from, v.window) + 1) * v.window
	}
}

// inWindow returns the units of a fixed window. In the window in which the rule starts, the
// initial deficit counts from the beginning.
func (l *account) inWindow(v *version, c int64, s side) int64 {
	n := l.units.inCells(v.window, c, c, s)
	first, last := cell(l.start.lo, v.window), cell(l.start.hi, v.window)
	if first <= c && c <= last && (s == most || first == last) {
		n += v.deficit
	}
	return n
}

// opened returns the end and the count of the window that contains at if windows are opened by
// the first request. A window that no request has opened is empty.
func (us list) opened(v *version, at int64, s side) (end, n int64) {
	for i := range us {
		u := &us[i]
		if u.at > at {
			break
		}
		if u.denied { // counts up to full, and then the window begins anew
			cost := min(u.most, u.full)
			switch {
			case u.at >= end:
				end, n = u.at+v.window, cost
			case n+cost < u.full:
				n += cost
			default:
				end, n = u.at+v.window, max(n, u.full)
			}
			continue
		}
		if u.count(s) == 0 {
			continue
		}
		if u.at >= end {
			end, n = u.at+v.window, 0
		}
		n += u.count(s)
	}
	if at >= end {
		return at + v.window, 0
	}
	return end, n
}

// counted returns the units of the sub-windows that lie wholly within the window at an
// instant, and of the oldest, which lies partly within it.
//
// A pre-filled counter starts as if Quota had been used in the window before
// the rule's start. How these units are spread over several sub-windows is not stated: at most
// all are in the newest.
func (l *account) counted(v *version, at int64, s side) (whole, oldest int64) {
	c := cell(at, v.sub)
	whole = l.units.inCells(v.sub, c-v.parts+1, c, s)
	oldest = l.units.inCells(v.sub, c-v.parts, c-v.parts, s)
	if !v.preFilled || v.parts > 1 && s == least {
		return whole, oldest
	}
	start := l.start.lo
	if s == most {
		start = l.start.hi
	}
	switch full := cell(start, v.sub) - 1; {
	case full == c-v.parts:
		oldest += v.quota
	case full > c-v.parts:
		whole += v.quota
	}
	return whole, oldest
}

// weighed returns the units of the oldest sub-window, weighed by its part within the window.
// The rule of v rounds them down or up.
func (v *version) weighed(oldest, at int64) int64 {
	left := v.sub - at%v.sub
	switch v.rule {
	case conservative:
		return oldest
	case strict:
		return mulDivUp(oldest, left, v.sub)
	default:
		n, _ := mulDiv(oldest, left, v.sub)
		return n
	}
}

// counterFits returns the first instant from which cost fits, by the rule of v: see
// counterRule.
func (l *account) counterFits(v *version, from, cost int64, s side) int64 {
	for {
		whole, oldest := l.counted(v, from, s)
		start, room := cell(from, v.sub)*v.sub, v.quota-whole-cost
		if at, ok := v.fitsWithin(start, oldest, room); ok {
			return max(at, from)
		}
		from = start + v.sub
	}
}

// fitsWithin returns the first instant of a sub-window at which the weighed units of the
// oldest fit the room.
func (v *version) fitsWithin(start, oldest, room int64) (int64, bool) {
	switch {
	case room < 0:
		return 0, false
	case oldest <= room:
		return start, true
	case v.rule == conservative:
		return 0, false
	}
	inSight, _ := mulDiv(room, v.sub, oldest) // oldest·inSight ≤ room·sub
	if v.rule == interpolated {               // oldest·inSight < (room+1)·sub
		inSight = min(mulDivUp(room+1, v.sub, oldest)-1, v.sub)
	}
	return start + v.sub - inSight, inSight > 0
}

// sureLimit returns how many units a histogram may hold such that cost certainly fits: a
// denial of cost implies a true count > (1−1/(k−1))·(Quota−cost).
func sureLimit(quota, cost, k int64) int64 {
	if cost > quota {
		return -1
	}
	n, _ := mulDiv(quota-cost, k-2, k-1)
	return n
}
