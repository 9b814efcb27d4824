// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"
	_ "time/tzdata" // on a machine without zone files

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

func calendar(c sluice.Calendar, zone string, start time.Weekday) sluice.Limit {
	return sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: c, Zone: zone, WeekStart: start}, Quota: 7}
}

func from(c sluice.Calendar, zone string, month time.Month, day int, at time.Duration) sluice.Limit {
	return sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: c, Zone: zone, From: sluice.Moment{Month: month, Day: day, Time: at}}, Quota: 7}
}

func TestCalendarWindows(t *testing.T) {
	for _, c := range []struct {
		name       string
		limit      sluice.Limit
		at         string // any instant
		start, end string // local
	}{
		{"a day", calendar(sluice.Day, "Asia/Seoul", 0), "2026-01-01T00:00:00+09:00", "2026-01-01T00:00:00+09:00", "2026-01-02T00:00:00+09:00"},
		{"its last µs", calendar(sluice.Day, "Asia/Seoul", 0), "2026-01-01T23:59:59.999999+09:00", "2026-01-01T00:00:00+09:00", "2026-01-02T00:00:00+09:00"},
		{"23 hours in New York", calendar(sluice.Day, "America/New_York", 0), "2026-03-08T12:00:00-04:00", "2026-03-08T00:00:00-05:00", "2026-03-09T00:00:00-04:00"},
		{"25 hours in New York", calendar(sluice.Day, "America/New_York", 0), "2026-11-01T12:00:00-05:00", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{"23 hours in Berlin", calendar(sluice.Day, "Europe/Berlin", 0), "2026-03-29T03:00:00+02:00", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"25 hours in Berlin", calendar(sluice.Day, "Europe/Berlin", 0), "2026-10-25T02:30:00+01:00", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"no midnight in São Paulo", calendar(sluice.Day, "America/Sao_Paulo", 0), "2018-11-04T01:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"},
		{"before there was none", calendar(sluice.Day, "America/Sao_Paulo", 0), "2018-11-03T23:59:59.999999-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"midnight twice in São Paulo", calendar(sluice.Day, "America/Sao_Paulo", 0), "2018-02-17T23:30:00-03:00", "2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00"},
		{"no midnight in Beirut", calendar(sluice.Day, "Asia/Beirut", 0), "2022-03-27T01:00:00+03:00", "2022-03-27T01:00:00+03:00", "2022-03-28T00:00:00+03:00"},
		{"clocks go back at 00:01 in St John's", calendar(sluice.Day, "America/St_Johns", 0), "2010-11-07T00:00:30-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"and show yesterday again", calendar(sluice.Day, "America/St_Johns", 0), "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"clocks go forward at 00:01 in St John's", calendar(sluice.Day, "America/St_Johns", 0), "2010-03-14T12:00:00-02:30", "2010-03-14T00:00:00-03:30", "2010-03-15T00:00:00-02:30"},
		{"Samoa before the day it skipped", calendar(sluice.Day, "Pacific/Apia", 0), "2011-12-29T23:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{"and behind it", calendar(sluice.Day, "Pacific/Apia", 0), "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"a week from Sunday", calendar(sluice.Week, "UTC", time.Sunday), "2026-01-01T00:00:00Z", "2025-12-28T00:00:00Z", "2026-01-04T00:00:00Z"},
		{"a week from Monday", calendar(sluice.Week, "UTC", time.Monday), "2026-01-01T00:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"a week from Monday, on it", calendar(sluice.Week, "UTC", time.Monday), "2025-12-29T00:00:00Z", "2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z"},
		{"a week from Saturday", calendar(sluice.Week, "UTC", time.Saturday), "2026-01-02T23:59:59Z", "2025-12-27T00:00:00Z", "2026-01-03T00:00:00Z"},
		{"a week of 167 hours", calendar(sluice.Week, "Europe/Berlin", time.Monday), "2026-03-29T12:00:00+02:00", "2026-03-23T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{"February", calendar(sluice.Month, "UTC", 0), "2026-02-28T23:59:59Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"February of a leap year", calendar(sluice.Month, "UTC", 0), "2028-02-29T12:00:00Z", "2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"December", calendar(sluice.Month, "UTC", 0), "2026-12-31T12:00:00Z", "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"a month that starts in another day of UTC", calendar(sluice.Month, "Pacific/Auckland", 0), "2026-06-30T13:00:00Z", "2026-07-01T00:00:00+12:00", "2026-08-01T00:00:00+12:00"},
		{"a year", calendar(sluice.Year, "UTC", 0), "2026-07-01T00:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"a leap year", calendar(sluice.Year, "Asia/Tokyo", 0), "2028-12-31T23:59:59+09:00", "2028-01-01T00:00:00+09:00", "2029-01-01T00:00:00+09:00"},
		{"2000 was one", calendar(sluice.Year, "UTC", 0), "2000-02-29T00:00:00Z", "2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"},
		{"a month behind a skipped day", calendar(sluice.Year, "Pacific/Apia", 0), "2011-12-30T09:59:59.999999Z", "2011-01-01T00:00:00-10:00", "2012-01-01T00:00:00+14:00"},
		{"a day from 09:00", from(sluice.Day, "Asia/Seoul", 0, 0, 9*time.Hour), "2026-01-01T08:59:59.999999+09:00", "2025-12-31T09:00:00+09:00", "2026-01-01T09:00:00+09:00"},
		{"a day from 02:30 that clocks skip", from(sluice.Day, "America/New_York", 0, 0, 150*time.Minute), "2026-03-08T12:00:00-04:00", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		{"a day from 01:30 that comes twice", from(sluice.Day, "America/New_York", 0, 0, 90*time.Minute), "2026-11-01T01:30:00-05:00", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		{"a day from 09:00 before one that was skipped", from(sluice.Day, "Pacific/Apia", 0, 0, 9*time.Hour), "2011-12-31T01:00:00+14:00", "2011-12-29T09:00:00-10:00", "2011-12-31T09:00:00+14:00"},
		{"a week from Monday at noon", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, WeekStart: time.Monday, From: sluice.Moment{Time: 12 * time.Hour}}, Quota: 7}, "2026-01-05T11:00:00Z", "2025-12-29T12:00:00Z", "2026-01-05T12:00:00Z"},
		{"a month from the 17th at 09:00", from(sluice.Month, "Europe/Berlin", 0, 17, 9*time.Hour), "2026-03-17T08:59:00+01:00", "2026-02-17T09:00:00+01:00", "2026-03-17T09:00:00+01:00"},
		{"and on it", from(sluice.Month, "Europe/Berlin", 0, 17, 9*time.Hour), "2026-03-17T09:00:00+01:00", "2026-03-17T09:00:00+01:00", "2026-04-17T09:00:00+02:00"},
		{"a month from the 31st, in one that has none", from(sluice.Month, "UTC", 0, 31, 0), "2026-02-28T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z"},
		{"a month from the 31st, at the new year", from(sluice.Month, "UTC", 0, 31, 0), "2026-01-30T23:59:59Z", "2025-12-31T00:00:00Z", "2026-01-31T00:00:00Z"},
		{"a year from 6 April", from(sluice.Year, "Europe/London", 4, 6, 0), "2026-04-05T22:59:59Z", "2025-04-06T00:00:00+01:00", "2026-04-06T00:00:00+01:00"},
		{"a year from 29 February, in one that has none", from(sluice.Year, "UTC", 2, 29, 9*time.Hour), "2027-02-28T09:00:00Z", "2027-02-28T09:00:00Z", "2028-02-29T09:00:00Z"},
		{"time zero from 09:00", from(sluice.Day, "UTC", 0, 0, 9*time.Hour), "1970-01-01T08:00:00Z", "1970-01-01T00:00:00Z", "1970-01-01T09:00:00Z"},
		{"time zero", calendar(sluice.Day, "America/New_York", 0), "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1970-01-02T00:00:00-05:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := compile(t, c.limit)
			at, wantStart, wantEnd := micros(t, c.at), micros(t, c.start), micros(t, c.end)
			if c.name == "time zero" { // 19 hours into the day, but time starts here
				wantEnd = 5 * h
			}
			start, end := algo.CalendarWindow(plan.Term(0), at)
			if start != wantStart || end != wantEnd {
				zone := plan.Term(0).Location
				t.Errorf("got %v to %v, want %v to %v", time.UnixMicro(start).In(zone), time.UnixMicro(end).In(zone),
					time.UnixMicro(wantStart).In(zone), time.UnixMicro(wantEnd).In(zone))
			}
		})
	}
}

func micros(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// TestCalendarAtTheEndOfLeapYears: for the last day of a leap year in the far future, package
// time returns zone bounds that have ended already.
func TestCalendarAtTheEndOfLeapYears(t *testing.T) {
	for _, zone := range []string{"America/New_York", "America/St_Johns", "Australia/Adelaide", "Australia/Lord_Howe", "America/Nuuk", "Pacific/Auckland"} {
		term := compile(t, calendar(sluice.Day, zone, 0)).Term(0)
		for year := 2028; year < 2100; year += 4 {
			for day := 29; day <= 32; day++ {
				noon := time.Date(year, time.December, day, 12, 0, 0, 0, term.Location)
				start, end := algo.CalendarWindow(term, noon.UnixMicro())
				if want := noon.UnixMicro() - 12*h; start != want || end != want+24*h {
					t.Errorf("%s, %v: got %d to %d, want %d to %d", zone, noon, start, end, want, want+24*h)
				}
			}
		}
	}
}

// zones are time zones with changes of all kinds.
var zones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "America/Sao_Paulo", "Asia/Beirut", "America/St_Johns", "Pacific/Apia",
	"Asia/Seoul", "Australia/Lord_Howe", "Antarctica/Troll", "Antarctica/Casey", "Antarctica/Vostok", "Africa/Casablanca", "Asia/Gaza",
	"Pacific/Kiritimati", "Pacific/Kwajalein", "America/Caracas", "Asia/Pyongyang", "Africa/Monrovia", "Etc/GMT+12", "Etc/GMT-14", "America/Nuuk",
}

// TestCalendarWindowsTile: every instant lies in exactly one window, and
// the next starts at its end, at the first instant of a later date.
func TestCalendarWindowsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := calendar(
			rapid.SampledFrom([]sluice.Calendar{sluice.Day, sluice.Week, sluice.Month, sluice.Year}).Draw(t, "calendar"),
			rapid.SampledFrom(zones).Draw(t, "zone"), 0,
		)
		testkit.Set(&l, func(w *sluice.FixedWindow) {
			if w.Calendar == sluice.Week {
				w.WeekStart = time.Weekday(rapid.IntRange(0, 6).Draw(t, "start"))
			}
			w.From = anyMoment(t, w.Calendar)
		})
		term := compile(t, l).Term(0)
		at := rapid.Int64Range(0, 80*366*24*h).Draw(t, "at")
		if rapid.Bool().Draw(t, "near a change") {
			_, until := time.UnixMicro(at).In(term.Location).ZoneBounds()
			if !until.IsZero() {
				at = max(until.UnixMicro()+rapid.Int64Range(-30*h, 30*h).Draw(t, "off"), 0)
			}
		}
		start, end := algo.CalendarWindow(term, at)
		if at < start || at >= end {
			t.Fatalf("%v: the window of %d is %d to %d", l, at, start, end)
		}
		if d := end - start; d > int64(l.Filled().Window/1000)+48*h || start > 0 && algo.Bound(l, dur(d)) < 2*l.Quota {
			t.Fatalf("%v: a window of %d µs", l, d)
		}
		for _, other := range []int64{start, end - 1, start + (end-start)/2} {
			if s, e := algo.CalendarWindow(term, other); s != start || e != end {
				t.Fatalf("%v: %d is in %d to %d, %d in %d to %d", l, at, start, end, other, s, e)
			}
		}
		if next, _ := algo.CalendarWindow(term, end); next != end {
			t.Fatalf("%v: one window ends at %d, the next starts at %d", l, end, next)
		}
		if start == 0 {
			return
		}
		if _, e := algo.CalendarWindow(term, start-1); e != start {
			t.Fatalf("%v: one window starts at %d, the one before ends at %d", l, start, e)
		}
		if testkit.Fixed(l).From != (sluice.Moment{}) {
			beginsAt(t, term, start)
			return
		}
		before, first := time.UnixMicro(start-1).In(term.Location), time.UnixMicro(start).In(term.Location)
		if y, m, d := first.Date(); before.Year() == y && before.Month() == m && before.Day() == d {
			t.Fatalf("%v: the window starts at %v, in the middle of a day", l, first)
		}
		if testkit.Fixed(l).Calendar == sluice.Year && first.YearDay() != 1 || testkit.Fixed(l).Calendar == sluice.Month && first.Day() != 1 {
			t.Fatalf("%v: starts at %v", l, first)
		}
	})
}

// anyMoment draws when a window begins, half of the time its first instant.
func anyMoment(t *rapid.T, c sluice.Calendar) (m sluice.Moment) {
	if rapid.Bool().Draw(t, "plain") {
		return m
	}
	m.Time = time.Duration(rapid.IntRange(0, 24*60-1).Draw(t, "minutes")) * time.Minute
	switch c {
	case sluice.Month:
		m.Day = rapid.IntRange(0, 31).Draw(t, "day")
	case sluice.Year:
		m.Month = time.Month(rapid.IntRange(1, 12).Draw(t, "month"))
		m.Day = rapid.IntRange(1, time.Date(2024, m.Month+1, 0, 0, 0, 0, 0, time.UTC).Day()).Draw(t, "day of it")
	}
	return m
}

// beginsAt fails unless local clocks show the Moment at an instant, or have just skipped it.
func beginsAt(t *rapid.T, term *sluice.Term, start int64) {
	wall := func(at int64) time.Time {
		_, offset := time.UnixMicro(at).In(term.Location).Zone()
		return time.UnixMicro(at).UTC().Add(time.Duration(offset) * time.Second)
	}
	now, before, m := wall(start), wall(start-1), term.From
	for day := -1; day <= 1; day++ { // a day that was skipped is over by now
		want := now.AddDate(0, 0, day).Truncate(24 * time.Hour).Add(m.Time)
		last := time.Date(want.Year(), want.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
		theDay := (m.Day == 0 || want.Day() == min(m.Day, last)) && (m.Month == 0 || want.Month() == m.Month)
		if m.Day == 0 && (term.Calendar == sluice.Month || term.Calendar == sluice.Year) {
			theDay = want.Day() == 1 && (term.Calendar == sluice.Month || want.Month() == time.January)
		}
		if theDay && (now.Equal(want) || !now.Before(want) && before.Before(want)) {
			return
		}
		if skipped := now.Sub(before) > 20*time.Hour || before.AddDate(0, 0, 2).Before(now); theDay && skipped {
			return
		}
	}
	t.Fatalf("%v: starts at %v, a µs behind %v", term.Limit, now, before)
}

// TestCalendarWindowsAreNoShorterThanTheBoundAssumes walks every change of the
// zones: three windows fit into no less than the bound says.
func TestCalendarWindowsAreNoShorterThanTheBoundAssumes(t *testing.T) {
	for _, zone := range zones {
		for _, c := range []sluice.Calendar{sluice.Day, sluice.Week, sluice.Month, sluice.Year} {
			noShorter(t, calendar(c, zone, 0))
			noShorter(t, from(c, zone, 0, 0, 9*time.Hour))
			noShorter(t, from(c, zone, 0, 0, 150*time.Minute))
			if c == sluice.Month {
				noShorter(t, from(c, zone, 0, 30, 23*time.Hour+59*time.Minute))
				noShorter(t, from(c, zone, 0, 31, 0))
			}
		}
	}
}

func noShorter(t *testing.T, l sluice.Limit) {
	t.Helper()
	term := compile(t, l).Term(0)
	for at := time.UnixMicro(48 * h).In(term.Location); at.Year() < 2027; {
		_, until := at.ZoneBounds()
		if until.IsZero() || !until.After(at) {
			break
		}
		start, end := algo.CalendarWindow(term, until.UnixMicro())
		// The last µs of the one before, all of it, the first of the next.
		if got := algo.Bound(l, dur(end-start+2)); start > 0 && got < 3*l.Quota {
			t.Errorf("%v: the window of %v has %v, and a bound of %d within it and 2 µs", l, until, dur(end-start), got)
		}
		at = until
	}
}
