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

// CalendarWindow returns the calendar window of t that holds the instant at:
// from the first instant whose local date is its first day to that of the next
// window. Days on which clocks change are longer or shorter, and a midnight
// that a zone skips is replaced by the first instant behind it.
func CalendarWindow(t *sluice.Term, at int64) (start, end int64) {
	loc := t.Location()
	y, m, d := time.UnixMicro(at).In(loc).Date()
	first := periodStart(t, date{y, m, d})
	for {
		next := periodNext(t, first)
		start, end = firstInstant(first, loc), firstInstant(next, loc)
		// Where clocks go back across midnight, an instant with yesterday's
		// date can lie behind the start of today.
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

// utc returns midnight of the date in UTC; it normalises days out of range.
func (d date) utc() time.Time { return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC) }

func dateOf(t time.Time) date {
	y, m, d := t.Date()
	return date{y, m, d}
}

// periodStart returns the first day of the window that d is in.
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

// periodNext returns the first day of the window behind the one that starts on d.
func periodNext(t *sluice.Term, d date) date {
	switch t.Calendar {
	case sluice.Week:
		return dateOf(d.utc().AddDate(0, 0, 7))
	case sluice.Month:
		return dateOf(d.utc().AddDate(0, 1, 0))
	case sluice.Year:
		return dateOf(d.utc().AddDate(1, 0, 0))
	default:
		return dateOf(d.utc().AddDate(0, 0, 1))
	}
}

// firstInstant returns the first instant, in µs, whose local date is d or later.
// It walks the stretches of constant offset around d's midnight.
func firstInstant(d date, loc *time.Location) int64 {
	midnight := d.utc()
	for at := midnight.Add(-26 * time.Hour).In(loc); ; {
		_, offset := at.Zone()
		local := midnight.Add(-time.Duration(offset) * time.Second)
		_, until := at.ZoneBounds()
		if !until.IsZero() && !until.After(at) {
			// After its last table entry, package time ends a leap year's last
			// stretch a day early: no clock changes in the hour behind that.
			until = at.Add(time.Hour)
		}
		switch {
		case !local.After(at):
			return max(at.UnixMicro(), 0)
		case until.IsZero() || local.Before(until):
			return max(local.UnixMicro(), 0)
		}
		at = until
	}
}
