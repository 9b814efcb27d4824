// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// tally is a sliding counter written as plainly as its rule: counts of all sub-windows, and
// products of any size. Units above the quota move from each sub-window to the next.
type tally struct {
	limit  sluice.Limit
	counts map[int64]int64 // by number of the sub-window
	last   int64           // the newest of these that holds any
}

func (y *tally) add(now, units int64) {
	*y = *y.at(now)
	y.last = max(y.last, now/part(y.limit))
	y.counts[now/part(y.limit)] += units
}

// at returns the tally at now.
func (y *tally) at(now int64) *tally {
	paid := &tally{y.limit, maps.Clone(y.counts), y.last}
	for ; y.limit.Debt > 0 && paid.last < now/part(y.limit); paid.last++ {
		over := -y.limit.Quota
		for i := range run(y.limit) {
			over += paid.counts[paid.last-i]
		}
		if over <= 0 {
			break
		}
		paid.counts[paid.last] -= over
		paid.counts[paid.last+1] = over
	}
	return paid
}

// run returns how many sub-windows in a row keep no more than the quota.
func run(l sluice.Limit) int64 {
	n := int64(max(testkit.Counter(l).SubWindows, 1))
	if testkit.Counter(l).Conservative {
		n++
	}
	return n
}

// admits reports whether cost fits at now.
func (y *tally) admits(now, cost int64) bool {
	y = y.at(now)
	sub, n := part(y.limit), int64(max(testkit.Counter(y.limit).SubWindows, 1))
	room := new(big.Int).SetInt64(y.limit.Quota - cost)
	if testkit.Counter(y.limit).Whole {
		n--
	}
	for i := range n {
		room.Sub(room, big.NewInt(y.counts[now/sub-i]))
	}
	oldest, inSight := big.NewInt(y.counts[now/sub-n]), big.NewInt(sub-now%sub)
	weighed, length := new(big.Int).Mul(oldest, inSight), big.NewInt(sub)
	switch {
	case testkit.Counter(y.limit).Conservative, testkit.Counter(y.limit).Whole:
		return oldest.Cmp(room) <= 0
	case testkit.Counter(y.limit).Strict: // oldest·(Sub−e) ≤ (Quota−whole−cost)·Sub
		return weighed.Cmp(room.Mul(room, length)) <= 0
	default: // oldest·(Sub−e) < (Quota−whole−cost+1)·Sub
		room.Add(room, big.NewInt(1))
		return weighed.Cmp(room.Mul(room, length)) < 0
	}
}

// anyCounter draws a sliding counter of any scale, of one of the four rules.
func anyCounter(t *rapid.T) sluice.Limit {
	n := rapid.SampledFrom([]int{1, 1, 2, 6, 60}).Draw(t, "sub-windows")
	most := bounds.MaxCounterQuota(n)
	quota := rapid.OneOf(rapid.Int64Range(1, 12), rapid.Int64Range(1, 1e6), rapid.Int64Range(1, most), rapid.Just(most)).Draw(t, "quota")
	sub := rapid.OneOf(rapid.Int64Range(1, 20), rapid.Int64Range(1, 2*s), rapid.Int64Range(1, sluice.MaxWindow.Microseconds()/int64(n))).Draw(t, "sub")
	l := counter(quota, sub*int64(n), n)
	switch rapid.IntRange(0, 5).Draw(t, "rule") {
	case 0:
		conservative(&l)
	case 1, 2:
		strict(&l)
	case 3:
		testkit.Set(&l, func(c *sluice.SlidingCounter) { c.Whole = n > 1 })
	}
	return l
}

// moment draws an instant after now, at or near an edge of a sub-window or of
// the part of it at which a unit fits.
func moment(t *rapid.T, l sluice.Limit, now int64) int64 {
	sub := part(l)
	gap := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, sub), rapid.Int64Range(0, 2*window(l))).Draw(t, "gap")
	if rapid.Bool().Draw(t, "near an edge") {
		return max((now+gap)/sub*sub+rapid.Int64Range(-2, 2).Draw(t, "near"), now)
	}
	return now + gap
}

// TestCounterIsItsRule: every decision follows the rule, a cost fits if
// and only if it is at most Remaining, and RetryAfter is the first µs at which
// it fits, at every scale.
func TestCounterIsItsRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyCounter(t)
		l.Debt = rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, min(l.Quota, (bounds.MaxCounterQuota(testkit.Counter(l).SubWindows)-l.Quota)/5)*5)).Draw(t, "debt")
		if l.Validate() != nil {
			l.Debt = 0
		}
		a, y := open(t, l), tally{limit: l, counts: make(map[int64]int64)}
		now := origin
		for range rapid.IntRange(1, 30).Draw(t, "takes") {
			now = moment(t, l, now)
			if l.Debt > 0 && rapid.IntRange(0, 3).Draw(t, "charge") == 0 {
				y.add(now, a.charge(now, rapid.Int64Range(0, l.Quota+l.Debt).Draw(t, "more")).Spent)
			}
			left := a.peek(now, 1).Remaining
			if left > 0 && !y.admits(now, left) || y.admits(now, left+1) { // in debt not even 0 fits
				t.Fatalf("%v: at %d %d remain, but by the rule they fit: %v, and one more: %v", l, now, left, y.admits(now, left), y.admits(now, left+1))
			}
			cost := rapid.OneOf(rapid.SampledFrom([]int64{0, 1, left, min(left+1, l.Quota), l.Quota}), rapid.Int64Range(0, l.Quota)).Draw(t, "cost")
			d := a.take(now, cost)
			switch retry := d.RetryAfter.Microseconds(); {
			case d.Allowed != y.admits(now, cost):
				t.Fatalf("%v: a take of %d at %d: got %+v, want allowed %v", l, cost, now, d, !d.Allowed)
			case d.Allowed:
				y.add(now, cost)
			case !d.TooLarge && (!y.admits(now+retry, cost) || y.admits(now+retry-1, cost)):
				t.Fatalf("%v: a take of %d at %d is to be tried %d µs later: fits then %v, 1 µs before %v",
					l, cost, now, retry, y.admits(now+retry, cost), y.admits(now+retry-1, cost))
			}
		}
	})
}

// TestCounterBoundAtEveryScale: no traffic of random takes, as many as fit,
// passes the bound, whatever the quota and the window.
func TestCounterBoundAtEveryScale(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := anyCounter(t)
		if l.Quota > 1<<40 {
			l.Quota >>= 20 // what a trace admits must be a number
		}
		if rapid.Bool().Draw(t, "in debt") {
			if l.Debt = rapid.Int64Range(1, 3*l.Quota).Draw(t, "debt"); l.Validate() != nil {
				l.Debt = 0
			}
		}
		a, now := open(t, l), origin
		var book admissions
		for range rapid.IntRange(1, 40).Draw(t, "takes") {
			now = moment(t, l, now)
			if l.Debt > 0 && rapid.IntRange(0, 3).Draw(t, "charge") == 0 {
				book.add(now, a.charge(now, l.Quota+l.Debt).Spent)
			}
			book.add(now, a.upTo(now, l.Quota).Spent)
		}
		checkBounds(t, l, book)
	})
}

// TestCounterBoundIsReachedAtEveryScale plays the worst traffic itself: all units in the last
// µs of a sub-window, and all that fit when it has nearly expired.
func TestCounterBoundIsReachedAtEveryScale(t *testing.T) {
	for _, quota := range []int64{1, 2, 3, 7, 10, 100, 65_537, 1e9, 1e12, sluice.MaxQuota} {
		for _, sub := range []int64{1, 2, 3, ms, s, 90 * s, h, sluice.MaxWindow.Microseconds() / 60} {
			for _, n := range []int{1, 2, 6, 60} {
				for _, rule := range []func(*sluice.Limit){func(*sluice.Limit) {}, strict} {
					l := with(counter(min(quota, bounds.MaxCounterQuota(n)), sub*int64(n), n), rule)
					for _, elapsed := range []int64{0, 1, sub / 3, sub / 2, sub - 2, sub - 1} {
						reach(t, l, elapsed)
					}
				}
			}
		}
	}
}

// reach takes all at the end of a sub-window and, when elapsed µs of the one a
// window later have passed, all that fits.
func reach(t *testing.T, l sluice.Limit, elapsed int64) {
	t.Helper()
	if elapsed < 0 || elapsed >= part(l) {
		return
	}
	a := open(t, l)
	edge := origin/part(l)*part(l) + part(l)
	got := a.upTo(edge-1, l.Quota).Spent
	last := edge + window(l) - part(l) + elapsed
	got += a.upTo(last, l.Quota).Spent
	if most := algo.Bound(l, dur(last-edge+2)); got != most {
		t.Errorf("%v: got %d within %d µs, want the bound of %d", l, got, last-edge+2, most)
	}
}

// TestShareServed takes one unit whenever one fits, like a client that sends all the time, and
// checks which part of its quota it gets.
func TestShareServed(t *testing.T) {
	quotas := []int64{1, 2, 3, 5, 10, 30, 100}
	for _, c := range []struct {
		rule  string
		n     int
		as    func(*sluice.Limit)
		share []float64 // in %, by quota
	}{
		{"default", 1, func(*sluice.Limit) {}, []float64{100, 100, 100, 100, 100, 100, 100}},
		{"default", 6, func(*sluice.Limit) {}, []float64{100, 100, 100, 100, 100, 100, 100}},
		{"strict", 1, strict, []float64{50, 50, 67, 80, 90, 97, 99}},
		{"conservative", 1, conservative, []float64{50, 50, 50, 50, 50, 50, 50}},
		{"conservative", 6, conservative, []float64{86, 86, 86, 86, 86, 86, 86}},
		{"whole", 2, whole, []float64{100, 100, 100, 100, 100, 100, 100}},
		{"whole", 6, whole, []float64{100, 100, 100, 100, 100, 100, 100}},
		{"conservative", 60, conservative, []float64{98, 98, 98, 98, 98, 98, 98}},
	} {
		for i, quota := range quotas {
			l := with(counter(quota, m, c.n), c.as)
			t.Run(fmt.Sprint(c.rule, " of ", quota, " in ", c.n), func(t *testing.T) {
				if got := math.Round(100 * served(t, l)); got != c.share[i] {
					t.Errorf("%v serves %v %% of its quota, want %v %%", l, got, c.share[i])
				}
			})
		}
	}
}

// served returns the part of the quota that a client gets if it sends all the time, over many
// windows without the first.
func served(t *testing.T, l sluice.Limit) float64 {
	const windows = 610 // of 61 sub-windows each, so that a slow beat comes out whole
	a, now, units := open(t, l), origin, int64(0)
	for now < origin+(windows+1)*window(l) {
		d := a.take(now, 1)
		switch {
		case !d.Allowed:
			now += d.RetryAfter.Microseconds()
		case now >= origin+window(l):
			units++
		}
	}
	return float64(units) / float64(windows*l.Quota)
}
