// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// press is one move of the adversary: at an instant it takes as many units as possible, up to
// a number, and uses the debt if there is any.
type press struct{ at, units int64 }

// adversary searches by hill climbing for the traffic that gets the most units within any span
// of d µs: it changes a press at random and keeps the change if it is no worse.
type adversary struct {
	*rand.Rand
	limit sluice.Limit
	plan  *sluice.Plan
	d     int64
	book  admissions
}

// score plays the presses and returns the most units in any span.
func (v *adversary) score(presses []press) int64 {
	slices.SortFunc(presses, func(a, b press) int { return cmp.Compare(a.at, b.at) })
	req := sluice.Request{Charge: sluice.Charge{Plan: v.plan}}
	item := []algo.Item{{Term: v.plan.Term(0)}}
	v.book = v.book[:0]
	spend := func(op sluice.Op, now, units int64) {
		req.Op, req.Cost, item[0].Cost = op, units, units
		if d := algo.Decide(&req, item, now); d.Spent > 0 {
			v.book = append(v.book, admitted{now, d.Spent})
		}
	}
	for _, p := range presses {
		spend(sluice.OpTakeUpTo, origin+p.at, p.units)
		if v.limit.Debt > 0 && p.units > 1 {
			spend(sluice.OpCharge, origin+p.at, v.limit.Debt+v.limit.Full())
		}
	}
	return v.book.most(v.d)
}

// instant draws a time at or near an edge of the limit or of another press.
func (v *adversary) instant(presses []press) int64 {
	w, p := window(v.limit), part(v.limit)
	near := []int64{-2, -1, 0, 1, 2, v.d - 2, v.d - 1, v.d, w - 1, w, w + 1, p - 1, p, p + 1}[v.IntN(14)]
	switch v.IntN(4) {
	case 0:
		return max(v.Int64N(v.d+2*w), 0)
	case 1:
		return max(v.Int64N(v.d/p+3)*p+near, 0)
	case 2:
		return max(v.Int64N(v.d/w+3)*w+near, 0)
	default:
		return max(presses[v.IntN(len(presses))].at+near, 0)
	}
}

// climb returns the best score that it finds. It stops when the score reaches enough.
func (v *adversary) climb(enough int64, tries int) (best int64, presses []press) {
	for restart := 0; tries > 0 && best < enough; restart++ {
		// It starts from a comb: all units, once for each part or window.
		idle := max(window(v.limit)/v.limit.Quota*v.limit.Full()/2, (v.d+2*window(v.limit))/300)
		step := []int64{part(v.limit), window(v.limit), idle + 1}[restart%3]
		var now []press
		phase := step - 1 + int64(restart/3%2)
		for i := int64(0); i*step < v.d+2*window(v.limit) && len(now) < 400; i++ {
			now = append(now, press{phase + i*step, v.limit.Full() + v.limit.Debt})
		}
		now = append(now, press{0, 1}, press{step - 1, v.limit.Full() + v.limit.Debt}, press{v.instant(now), v.limit.Full()}, press{v.instant(now), v.limit.Full()})
		score := v.score(now)
		for range 400 {
			if tries--; score >= enough {
				break
			}
			next := slices.Clone(now)
			for range 1 + v.IntN(2) {
				i := v.IntN(len(next))
				switch v.IntN(5) {
				case 0:
					next[i].units = 1 + v.Int64N(v.limit.Full()+v.limit.Debt)
				case 1:
					next = append(next, press{v.instant(next), v.limit.Full() + v.limit.Debt})
				case 2:
					if len(next) > 1 {
						next = slices.Delete(next, i, i+1)
					}
				default:
					next[i].at = v.instant(next)
				}
			}
			if s := v.score(next); s >= score {
				now, score = next, s
			}
		}
		if score > best {
			best, presses = score, now
		}
	}
	return best, presses
}

// TestBoundIsReached lets an adversary come within a unit of the bound, for
// every variant and spans from an instant to several windows. If it does not,
// either the bound is loose or the adversary is too weak to show that it holds.
func TestBoundIsReached(t *testing.T) {
	for _, variant := range variants() {
		l := variant.limit
		if testkit.Fixed(l).Calendar != sluice.NoCalendar || testkit.Token(l).WarmUp > 0 {
			continue // see TestBoundOfCalendarIsReached and TestBoundOfWarmUpIsReached
		}
		t.Run(variant.name, func(t *testing.T) {
			t.Parallel()
			w := window(l)
			for i, d := range []int64{1, w / 2, w - part(l) + 3, w - 1, w, w + 1, 2 * w, 3*w + w/3} {
				if d < 1 {
					continue
				}
				most := algo.Bound(l, dur(d))
				// A bucket's bound counts a span's first µs as refill time too.
				slack := 1 + l.Quota/w
				if testkit.Is[sluice.SlidingCounter](l) && !testkit.Counter(l).Conservative && !testkit.Counter(l).Whole {
					// What the last µs of each window before keeps from coming back.
					slack = 2 * (l.Quota + l.Debt) / part(l)
					if testkit.Counter(l).Strict {
						slack += max(d/w, 1) // not quite a unit each time, rounded up
					}
				}
				v := adversary{Rand: rand.New(rand.NewPCG(uint64(i), 7)), limit: l, plan: compile(t, l), d: d}
				best, presses := v.climb(min(most-slack+1, most), 6000)
				if best > most {
					t.Fatalf("%d µs: got %d units, more than the bound of %d: %v", d, best, most, presses)
				}
				if best < most-slack {
					t.Errorf("%d µs: got at most %d units, want %d of the bound of %d: %v", d, best, most-slack, most, presses)
				}
			}
		})
	}
}

// TestBoundOfCalendarIsReached spends three days' quotas within 24 hours, around
// a day of 23.
func TestBoundOfCalendarIsReached(t *testing.T) {
	l := with(fixed(7, 0), daily("America/New_York"))
	zone, err := time.LoadLocation(testkit.Fixed(l).Zone)
	if err != nil {
		t.Fatal(err)
	}
	short := time.Date(2026, time.March, 8, 0, 0, 0, 0, zone).UnixMicro()
	long := time.Date(2026, time.March, 9, 0, 0, 0, 0, zone).UnixMicro()
	if long-short != 23*h {
		t.Fatalf("the day has %d µs, want 23 h", long-short)
	}
	a := open(t, l)
	var book admissions
	for _, now := range []int64{short - 1, short, long} {
		book.add(now, a.upTo(now, 100).Spent)
	}
	if got, want := book.most(24*h), algo.Bound(l, 24*time.Hour); got != want || want != 21 {
		t.Errorf("got %d units within 24 h, want the bound %d = 21", got, want)
	}
}

func TestBoundEdges(t *testing.T) {
	const most = 1<<63 - 1
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		d     time.Duration
		want  int64
	}{
		{"no span", log(5, m), 0, 0},
		{"less than 1 µs", log(5, m), time.Microsecond - 1, 0},
		{"negative span", log(5, m), -time.Second, 0},
		{"not a limit", sluice.Limit{}, time.Second, 0},
		{"beyond 63 bits", limit(sluice.TokenBucket{}, sluice.MaxQuota, 1), time.Hour, most},
		{"fixed beyond 63 bits", with(fixed(sluice.MaxQuota-1, 1), debtOf(1)), time.Hour, most},
		{"counter beyond 63 bits", with(counter(bounds.MaxCounterQuota(2)-1, 2, 2), debtOf(1)), time.Hour, most},
		{"interval beyond 63 bits", with(tokens(sluice.MaxQuota, 1, sluice.MaxQuota), byInterval), time.Hour, most},
		{"longest span", log(1, m), 1<<63 - 1, 153722868},
		{"bucket", tokens(5, m, 7), time.Minute, 12},
		{"interval bucket", with(tokens(5, m, 7), byInterval), time.Minute, 12},
		{"interval bucket of less than a refill", with(tokens(9, m, 4), byInterval, debtOf(1)), time.Minute, 10},
		{"interval bucket with two refills", with(tokens(5, m, 7), byInterval), time.Minute + 2*time.Microsecond, 17},
		{"fixed", fixed(5, m), time.Minute, 10},
		{"fixed in an instant", fixed(5, m), time.Microsecond, 5},
		{"counter", counter(5, m, 1), time.Minute, 10},
		{"counter in an instant", counter(5, m, 1), time.Microsecond, 5},
		{"counter across an edge", counter(5, m, 1), 2 * time.Microsecond, 5},
		{"counter 1 µs behind an edge", counter(5, m, 1), 3 * time.Microsecond, 6},
		{"counter of 6", counter(5, m, 6), time.Minute, 10},
		{"counter of 6 in all but a sub-window", counter(5, m, 6), 50 * time.Second, 5},
		{"strict", with(counter(5, m, 1), strict), time.Minute, 9},
		{"strict 1 µs behind an edge", with(counter(5, m, 1), strict), 3 * time.Microsecond, 5},
		{"strict of 6", with(counter(5, m, 6), strict), time.Minute, 9},
		{"conservative", with(counter(5, m, 6), conservative), time.Minute, 5},
		{"whole", with(counter(5, m, 6), whole), time.Minute, 10},
		{"whole, in all but a sub-window", with(counter(5, m, 6), whole), 50*time.Second + time.Microsecond, 5},
		{"whole, across an edge more", with(counter(5, m, 6), whole), 50*time.Second + 2*time.Microsecond, 10},
		{"log", log(5, m), time.Minute, 5},
	} {
		if got := algo.Bound(c.limit, c.d); got != c.want {
			t.Errorf("%s: Bound(%v, %v) = %d, want %d", c.name, c.limit, c.d, got, c.want)
		}
	}
}

func TestWorstSaysTheBound(t *testing.T) {
	for _, c := range []struct {
		limit sluice.Limit
		want  string
	}{
		{sluice.PerMinute(100), "at most 200 requests in any minute"},
		{fixed(100, m), "at most 200 requests in any minute"},
		{counter(100, m, 1), "at most 200 requests in any minute"},
		{with(counter(100, m, 1), strict), "at most 199 requests in any minute"},
		{with(counter(100, m, 6), strict), "at most 199 requests in any minute"},
		{with(counter(100, m, 6), whole), "at most 200 requests in any minute"},
		{log(1, 90*s), "at most 1 request in any 90 seconds"},
		{with(log(10, 15*m), debtOf(3)), "at most 13 requests in any 15 minutes, a debt of 3 requests included"},
		{with(tokens(5, s, 5), debtOf(99), nextWaits), "at most 109 requests in any second, a debt of 99 requests included, for which the next waits up to 19.8s"},
		{with(tokens(5, s, 5), debtOf(11), nextWaits, byInterval), "at most 21 requests in any second, a debt of 11 requests included, for which the next waits up to 3s"},
		{with(tokens(2, s, 0), warmUp(4*s)), "at most 3 requests in any second; those of a cold key come up to 2s later"},
		{with(fixed(9, 0), daily("Asia/Seoul")), "at most 9 requests in any calendar day (Asia/Seoul), and 18 requests around midnight when one follows another"},
		{leaky(10, s, 6, 1), "at most 16 requests in any second, of which at most 11 requests go on, the others delayed by up to 500ms"},
		{sluice.Limit{Algorithm: sluice.SlidingHistogram{}, Unit: sluice.Bytes, Quota: 150e6, Window: time.Minute}, "at most 150 MB in any minute"},
		{sluice.Limit{Algorithm: sluice.SlidingHistogram{}, Unit: sluice.Bytes, Quota: 1_500_001, Window: time.Minute}, "at most 1500001 bytes in any minute"},
	} {
		if got := fmt.Sprint(algo.WorstOf(c.limit)); got != c.want {
			t.Errorf("Worst(%v)\n got %q\nwant %q", c.limit, got, c.want)
		}
	}
}
