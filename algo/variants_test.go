// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"time"

	"github.com/sluicegate/sluice"
)

// variant is a limit that the invariants are tested on.
type variant struct {
	name  string
	limit sluice.Limit
}

// variants returns limits of every algorithm in every variant, with quotas that divide their
// windows and quotas that do not. Windows are short, so that random instants fall into all of
// their parts.
func variants() []variant {
	month := sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Month, Zone: "America/New_York"}, Quota: 7}
	week := sluice.Limit{Algorithm: sluice.FixedWindow{Calendar: sluice.Week, WeekStart: time.Monday, Zone: "Europe/Berlin"}, Quota: 7}
	return []variant{
		{"bucket 3 per s", tokens(3, s, 3)},
		{"bucket 7 per min", tokens(7, m, 7)},
		{"bucket 65537 per min", tokens(65_537, m, 20_000)},
		{"bucket 1 per s", tokens(1, s, 1)},
		{"bucket burst above quota", tokens(3, s, 11)},
		{"bucket burst below quota", tokens(100, s, 5)},
		{"bucket with debt", with(tokens(7, s, 5), debtOf(9))},
		{"bucket 10 µs per unit", tokens(100, ms, 30)},
		{"bucket many units per µs", tokens(70, 10*µs, 50)},
		{"bucket deficit", with(tokens(7, s, 10), deficit(6))},
		{"bucket all deficit", with(tokens(3, s, 3), deficit(3))},
		{"bucket whose next waits", with(tokens(7, s, 5), debtOf(9), nextWaits)},
		{"bucket of one whose next waits", with(tokens(3, s, 1), debtOf(1), nextWaits)},
		{"bucket deficit whose next waits", with(tokens(7, s, 7), debtOf(20), nextWaits, deficit(7))},
		{"warm-up", with(tokens(7, s, 1), warmUp(300*ms))},
		{"warm-up of a burst with debt", with(tokens(7, s, 5), warmUp(500*ms), debtOf(9))},
		{"warm-up whose next waits", with(tokens(3, s, 2), warmUp(s+1), debtOf(4), nextWaits)},
		{"warm-up of many units per µs", with(tokens(70_000, 10*ms, 50), warmUp(ms))},
		{"warm-up shorter than a unit", with(tokens(65_537, 24*h, 3), warmUp(900*ms))},
		{"interval bucket whose next waits", with(tokens(3, s, 5), byInterval, debtOf(7), nextWaits)},
		{"interval bucket", with(tokens(3, s, 10), byInterval)},
		{"interval bucket of one", with(tokens(1, s, 1), byInterval)},
		{"interval bucket burst below quota", with(tokens(10, s, 4), byInterval)},
		{"interval bucket with debt", with(tokens(3, s, 5), byInterval, debtOf(7))},
		{"interval bucket deficit", with(tokens(3, s, 10), byInterval, deficit(5))},
		{"aligned bucket", with(tokens(3, s, 10), aligned)},
		{"aligned bucket of one", with(tokens(1, s, 1), aligned)},
		{"aligned bucket burst below quota", with(tokens(10, s, 4), aligned)},
		{"aligned bucket with debt", with(tokens(3, s, 5), aligned, debtOf(7))},
		{"aligned bucket deficit", with(tokens(3, s, 10), aligned, deficit(5))},
		{"meter", leaky(7, s, 5, 5)},
		{"queue", leaky(7, s, 5, 1)},
		{"queue beyond 3", leaky(3, s, 8, 3)},
		{"queue with debt", with(leaky(3, s, 4, 2), debtOf(3))},
		{"queue of one", leaky(1, s, 1, 1)},
		{"fixed", fixed(7, s)},
		{"fixed of one", fixed(1, s)},
		{"fixed with debt", with(fixed(7, s), debtOf(3))},
		{"fixed on first", with(fixed(7, s), onFirst)},
		{"fixed on first with debt", with(fixed(5, s), onFirst, debtOf(4))},
		{"fixed deficit", with(fixed(7, s), deficit(3))},
		{"fixed deficit with debt", with(fixed(7, s), deficit(7), debtOf(3))},
		{"day in Berlin from 09:30", with(fixed(7, 0), daily("Europe/Berlin"), option(func(w *sluice.FixedWindow) { w.From.Time = 570 * time.Minute }))},
		{"month in New York from the 31st, deficit", with(month, deficit(5), option(func(w *sluice.FixedWindow) { w.From = sluice.Moment{Day: 31, Time: 9 * time.Hour} }))},
		{"day in New York", with(fixed(7, 0), daily("America/New_York"))},
		{"week in Berlin", week},
		{"month in New York", month},
		{"log", log(7, s)},
		{"log of one", log(1, s)},
		{"log with debt", with(log(7, s), debtOf(4))},
		{"log of large entries", log(10_000, s)},
		{"log counting denials", with(log(7, s), countDenied)},
		{"log counting denials with debt", with(log(7, s), countDenied, debtOf(5))},
		{"bucket counting denials", with(tokens(7, s, 5), countDenied)},
		{"bucket counting denials with debt", with(tokens(3, s, 3), countDenied, debtOf(4))},
		{"interval bucket counting denials", with(tokens(3, s, 10), byInterval, countDenied)},
		{"interval bucket counting denials with debt", with(tokens(3, s, 4), byInterval, countDenied, debtOf(5))},
		{"meter counting denials", with(leaky(7, s, 5, 5), countDenied)},
		{"queue counting denials", with(leaky(7, s, 5, 1), countDenied)},
		{"fixed counting denials", with(fixed(7, s), countDenied)},
		{"fixed on first counting denials", with(fixed(7, s), onFirst, countDenied, debtOf(2))},
		{"counter counting denials", with(counter(7, s, 1), countDenied)},
		{"counter strict counting denials with debt", with(counter(7, s, 1), strict, countDenied, debtOf(2))},
		{"counter of 6 counting denials", with(counter(7, 6*ms, 6), countDenied)},
		{"counter of 6 conservative counting denials", with(counter(7, 6*ms, 6), conservative, countDenied)},
		{"counter of 6 whole counting denials", with(counter(7, 6*ms, 6), whole, countDenied)},
		{"histogram 3 counting denials", with(histogram(100, s, 3), countDenied)},
		{"histogram 12 counting denials with debt", with(histogram(60, s, 12), countDenied, debtOf(9))},
		{"counter", counter(7, s, 1)},
		{"counter of one", counter(1, s, 1)},
		{"counter with debt", with(counter(7, s, 1), debtOf(4))},
		{"counter strict", with(counter(7, s, 1), strict)},
		{"counter strict of one", with(counter(1, s, 1), strict)},
		{"counter strict with debt", with(counter(7, s, 1), strict, debtOf(4))},
		{"counter strict pre-filled", with(counter(7, s, 1), strict, preFilled)},
		{"counter of more units than µs", counter(700, 100*µs, 1)},
		{"counter strict of more units than µs", with(counter(700, 100*µs, 1), strict)},
		{"counter conservative", with(counter(7, s, 1), conservative)},
		{"counter pre-filled", with(counter(7, s, 1), preFilled)},
		{"counter of 6", counter(7, 6*ms, 6)},
		{"counter of 6 conservative", with(counter(7, 6*ms, 6), conservative)},
		{"counter of 6 pre-filled", with(counter(20, 6*ms, 6), preFilled)},
		{"counter of 6 strict", with(counter(7, 6*ms, 6), strict)},
		{"counter of 6 strict with debt", with(counter(20, 6*ms, 6), strict, debtOf(5))},
		{"counter of 60 strict", with(counter(100, 60*ms, 60), strict)},
		{"counter of 6 with debt", with(counter(20, 6*ms, 6), debtOf(5))},
		{"counter of 60", counter(100, 60*ms, 60)},
		{"counter of 2 whole", with(counter(7, 6*ms, 2), whole)},
		{"counter of 6 whole", with(counter(7, 6*ms, 6), whole)},
		{"counter of 6 whole with debt", with(counter(7, 6*ms, 6), whole, debtOf(4))},
		{"counter of 6 whole pre-filled", with(counter(20, 6*ms, 6), whole, preFilled)},
		{"counter of 60 whole", with(counter(100, 60*ms, 60), whole)},
		{"counter of 60 conservative", with(counter(100, 60*ms, 60), conservative)},
		{"histogram 3", histogram(100, s, 3)},
		{"histogram 12", histogram(1000, s, 12)},
		{"histogram 32", histogram(60, s, 32)},
		{"histogram of one", histogram(1, s, 3)},
		{"histogram with debt", with(histogram(100, s, 3), debtOf(50))},
	}
}
