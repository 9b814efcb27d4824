// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Moment is the moment of a day, week, month or year at which a calendar window begins, by
// the clocks of its zone: "the 17th at 09:00". The zero value is the first instant.
// If clocks skip that time, the window begins at the first instant after it. If a month
// has no such day, the window begins on its last day.
type Moment struct {
	Month time.Month    // of a year; zero, with Day, means January 1
	Day   int           // of a month or year, from 1; zero means 1
	Time  time.Duration // of the day, in whole minutes
}

// String returns "17T09:00", "17", "04-06T09:00" or "09:00", and "" for the zero
// value.
func (m Moment) String() string {
	day, clock := "", ""
	switch {
	case m.Month != 0:
		day = fmt.Sprintf("%02d-%02d", int(m.Month), m.Day)
	case m.Day != 0:
		day = strconv.Itoa(m.Day)
	}
	if m.Time != 0 {
		clock = fmt.Sprintf("%02d:%02d", int(m.Time/time.Hour), int(m.Time%time.Hour/time.Minute))
	}
	if day != "" && clock != "" {
		return day + "T" + clock
	}
	return day + clock
}

// parseMoment reads the text that String writes, and reports whether s has that form.
// Validate checks that the day exists.
func parseMoment(s string) (m Moment, ok bool) {
	day, clock, both := strings.Cut(s, "T")
	if !both && strings.Contains(s, ":") {
		day, clock = "", s
	}
	if day == "" && (both || clock == "") || both && clock == "" {
		return m, false
	}
	if clock != "" {
		at, err := time.Parse("15:04", clock)
		if err != nil || len(clock) != len("15:04") {
			return m, false
		}
		m.Time = time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
	}
	if month, dom, ofYear := strings.Cut(day, "-"); ofYear {
		n, ok := twoDigits(month)
		m.Month, day = time.Month(n), dom
		if !ok || n == 0 {
			return m, false
		}
	}
	if day != "" {
		n, ok := twoDigits(day)
		if m.Day = n; !ok || n == 0 {
			return m, false
		}
	}
	return m, true
}

func twoDigits(s string) (n int, ok bool) {
	for i := range len(s) {
		if !isDigit(s[i]) {
			return 0, false
		}
		n = 10*n + int(s[i]-'0')
	}
	return n, len(s) == 1 || len(s) == 2
}

// filled returns m with zero in place of the first day of c's window.
func (m Moment) filled(c Calendar) Moment {
	if c == Year && m.Month == time.January && m.Day == 1 {
		m.Month, m.Day = 0, 0
	}
	if c == Month && m.Day == 1 {
		m.Day = 0
	}
	return m
}

// fault returns the reason why m is no moment of c's window, "" if it is one.
func (m Moment) fault(c Calendar) string {
	switch {
	case m == Moment{}:
		return ""
	case c == NoCalendar:
		return "needs a Calendar; a window of fixed length begins with the clock"
	case m.Time < 0 || m.Time >= 24*time.Hour || m.Time%time.Minute != 0:
		return fmt.Sprintf("the time of %v must be of a day, in whole minutes", m.Time)
	case (c == Day || c == Week) && (m.Month != 0 || m.Day != 0):
		return fmt.Sprintf("a calendar %v begins at a time alone, such as 09:00; a week's first day is its WeekStart", c)
	case c == Month && m.Month != 0:
		return "a calendar month begins on a day from 1 to 31, without a month"
	case c == Month && (m.Day < 0 || m.Day > 31):
		return fmt.Sprintf("day %d must be 1 to 31", m.Day)
	case c != Year || m.Month == 0 && m.Day == 0:
		return ""
	case m.Month < time.January || m.Month > time.December:
		return "a calendar year begins in a month and on a day of it, such as 04-06"
	case m.Day < 1 || m.Day > daysIn(m.Month):
		return fmt.Sprintf("%v has no day %d", m.Month, m.Day)
	}
	return ""
}

// daysIn returns the number of days of a month in a leap year.
func daysIn(m time.Month) int {
	return time.Date(2024, m+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
