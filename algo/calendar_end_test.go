// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"
	_ "time/tzdata" // the zones below

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// TestCalendarBeyondZoneTables: zone tables end in 2037; package time goes on
// by the zone's rule and there ends leap years a day early.
func TestCalendarBeyondZoneTables(t *testing.T) {
	for _, zone := range []string{"UTC", "America/New_York", "Europe/London", "Africa/Cairo", "Asia/Seoul"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for c := sluice.Day; c <= sluice.Year; c++ {
			p, err := sluice.Compile("any", sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: c, Zone: zone}, Quota: 1})
			if err != nil {
				t.Fatal(err)
			}
			for year := 2036; year < 2111; year++ {
				for _, at := range []time.Time{
					time.Date(year, time.December, 31, 12, 0, 0, 0, loc),
					time.Date(year, time.January, 1, 0, 0, 0, 0, loc),
				} {
					start, end := algo.CalendarWindow(p.Term(0), at.UnixMicro())
					if start > at.UnixMicro() || end <= at.UnixMicro() {
						t.Fatalf("%s %v: %v is not within %v and %v", zone, c, at, time.UnixMicro(start).In(loc), time.UnixMicro(end).In(loc))
					}
					for _, edge := range []int64{start, end} {
						if local := time.UnixMicro(edge).In(loc); local.Hour() != 0 || local.Minute() != 0 {
							t.Fatalf("%s %v: edge %v is not a midnight", zone, c, local)
						}
					}
				}
			}
		}
	}
}
