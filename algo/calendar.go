// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"time"

	"github.com/sluicegate/sluice"
)

// calendarSlack is how much longer than its nominal length a calendar window
// can be, in µs: changes of a zone's offset stay below a day each.
const calendarSlack = 48 * 3600 * 1e6

// CalendarWindow returns the calendar window of t that holds the instant at. The window
// starts with the first instant of its first day in local time, or at the Moment of t,
// and ends with the start of the next window. Days on which clocks change are longer or
// shorter. A time that a zone skips is replaced by the first instant after it.
func CalendarWindow(t *sluice.Term, at int64) (start, end int64) {
	y, m, d := time.UnixMicro(at).In(t.Location).Date()
	first := periodStart(t, date{y, m, d})
	for t.From != (sluice.Moment{}) && edge(t, first) > at {
		first = period(t, first, -1) // the day's Moment has not come yet
	}
	for {
		next := period(t, first, 1)
		start, end = max(edge(t, first), 0), max(edge(t, next), 0)
		// If clocks go back across midnight, an instant with yesterday's
		// date can lie after the start of today.
		if at < end {
			return start, end
		}
		first = next
	}
}

type date struct {
	year  int
	month time.Month
	day   int
}

// utc returns midnight of the date in UTC. It normalises days out of range.
func (d date) utc() time.Time { return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC) }

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

// periodStart returns the first day of the window that holds d.
func periodStart(t *sluice.Term, d date) date {
	switch t.Calendar {
	case sluice.Week:
		back := (int(d.utc().Weekday()) - int(t.WeekStart) + 7) % 7
		return dateOf(d.utc().AddDate(0, 0, -back))
	case sluice.Month:
		return date{d.year, d.month, 1}
	case sluice.Year:
		return date{d.year, time.January, 1}
	default:
		return d
	}
}

// period returns the first day of the n-th window after the one that starts on d.
func period(t *sluice.Term, d date, n int) date {
	switch t.Calendar {
	case sluice.Week:
		return dateOf(d.utc().AddDate(0, 0, 7*n))
	case sluice.Month:
		return dateOf(d.utc().AddDate(0, n, 0))
	case sluice.Year:
		return dateOf(d.utc().AddDate(n, 0, 0))
	default:
		return dateOf(d.utc().AddDate(0, 0, n))
	}
}

// edge returns the start of the window whose first day is d.
func edge(t *sluice.Term, d date) int64 {
	loc := t.Location
	if t.From.Month != 0 {
		d.month = t.From.Month
	}
	if t.From.Day != 0 {
		last := date{d.year, d.month + 1, 0}.utc().Day()
		d.day = min(t.From.Day, last)
	}
	at := firstInstant(d.utc(), loc)
	if t.From.Time == 0 {
		return at
	}
	// If the zone skips that day, the window starts on the next one, at the same time.
	d = dateOf(time.UnixMicro(at).In(loc))
	return firstInstant(d.utc().Add(t.From.Time), loc)
}

// firstInstant returns the first instant, in µs, at which local clocks show the time of
// wall, which is in UTC, or later. It walks the periods of constant offset around wall.
func firstInstant(wall time.Time, loc *time.Location) int64 {
	for at := wall.Add(-26 * time.Hour).In(loc); ; {
		_, offset := at.Zone()
		local := wall.Add(-time.Duration(offset) * time.Second)
		_, until := at.ZoneBounds()
		if !until.IsZero() && !until.After(at) {
			// After its last table entry, package time ends the last period of a leap
			// year a day early. No clock changes in the hour after that.
			until = at.Add(time.Hour)
		}
		switch {
		case !local.After(at):
			return at.UnixMicro()
		case until.IsZero() || local.Before(until):
			return local.UnixMicro()
		}
		at = until
	}
}
