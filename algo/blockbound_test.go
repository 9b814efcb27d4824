// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// blocksOf returns the indexes of the denials that start a block; denials are instants in
// order.
func blocksOf(t rapid.TB, b sluice.Limit, denials []int64) (blocks []int) {
	a := open(t, log(1, 366*24*h), b)
	a.take(origin-1, 1)
	for i, at := range denials {
		st := &a.items[1].State
		counted, idle := st.A, st.Idle
		if a.take(at, 1); st.A == 0 && (counted > 0 || st.Idle != idle) {
			blocks = append(blocks, i)
		}
	}
	return blocks
}

// within returns how many instants lie in (to−d, to].
func within(list []int64, to, d int64) (n int64) {
	for _, at := range list {
		if at <= to && at > to-d {
			n++
		}
	}
	return n
}

// TestDenialsSound: fewer than least in every span do not block, and most block.
func TestDenialsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := blockOf(rapid.Int64Range(1, 6).Draw(t, "denials"), rapid.Int64Range(1, 40).Draw(t, "window"), rapid.Int64Range(1, 60).Draw(t, "length"))
		worst := algo.WorstOf(b)
		least, most := worst.LeastDenials, worst.MostDenials
		var denials []int64
		at := origin
		for _, gap := range rapid.SliceOfN(rapid.Int64Range(0, 12), 1, 60).Draw(t, "gaps") {
			at += gap
			denials = append(denials, at)
		}
		blocks := blocksOf(t, b, denials)
		end := int64(0) // of the block before
		var counting []int64
		for i, at := range denials {
			if at < end {
				continue
			}
			counting = append(counting, at)
			n := within(counting, at, window(b))
			isBlocked := slices.Contains(blocks, i)
			if isBlocked && n < least {
				t.Fatalf("%v: blocked at %d by %d denials of %v", b, at, n, counting)
			}
			if !isBlocked && n >= most {
				t.Fatalf("%v: not blocked at %d by %d denials of %v", b, at, n, counting)
			}
			if isBlocked {
				end, counting = at+testkit.Block(b).For.Microseconds(), nil
			}
		}
	})
}

// TestDenialsTight: least may be enough, and one fewer than most may be too few.
func TestDenialsTight(t *testing.T) {
	for quota := int64(1); quota <= 9; quota++ {
		b := blockOf(quota, m, h)
		worst := algo.WorstOf(b)
		least, most := worst.LeastDenials, worst.MostDenials
		if got := blocksOf(t, b, slices.Repeat([]int64{origin}, int(least))); len(got) != 1 {
			t.Errorf("%v: %d denials at once: blocked %d times", b, least, len(got))
		}
		rnd, best := rand.New(rand.NewPCG(uint64(quota), 7)), int64(0)
		for range 20_000 {
			// Around the end of a window that one denial has opened.
			denials := []int64{origin}
			for range rnd.Int64N(2 * quota) {
				denials = append(denials, origin+m-2+rnd.Int64N(4))
			}
			slices.Sort(denials)
			if len(blocksOf(t, b, denials)) == 0 {
				last := denials[len(denials)-1]
				best = max(best, within(denials, last, m))
			}
			if best == most-1 {
				break
			}
		}
		if best != most-1 {
			t.Errorf("%v: at most %d denials were found that do not block, the bound is %d", b, best, most-1)
		}
	}
	if w := algo.WorstOf(onceAnHour); w.LeastDenials != 0 || w.MostDenials != 0 {
		t.Errorf("of no block: got %d, %d", w.LeastDenials, w.MostDenials)
	}
}

// TestBlockBound: the bound of a block has no units, and Worst describes the block.
func TestBlockBound(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"20/min block 10min", "blocks a key for 10 minutes after 20 denials in any minute (at most 38, if they straddle two windows)"},
		{"1/h block 1day", "blocks a key for 1 day after 1 denial in any hour"},
		{"2/5s block 90s", "blocks a key for 90 seconds after 2 denials in any 5 seconds"},
	} {
		l := sluice.MustParseLimit(c.text)
		if got := algo.WorstOf(l).String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
		if got := algo.Bound(l, time.Hour); got != math.MaxInt64 {
			t.Errorf("%s: a bound of %d units", c.text, got)
		}
		if got := algo.Bound(l, time.Hour, onceAnHour); got != math.MaxInt64 {
			t.Errorf("%s: a bound of %d units beside another", c.text, got)
		}
	}
}
