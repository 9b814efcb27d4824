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
)

// blockModel is what a block has to do, by a list of denials.
type blockModel struct {
	limit   sluice.Limit
	denials []int64 // that count, in the window
	until   int64
}

func (b *blockModel) deny(now int64) {
	if len(b.denials) > 0 && now >= b.denials[0]+b.limit.Window.Microseconds() {
		b.denials = nil
	}
	if b.denials = append(b.denials, now); int64(len(b.denials)) == b.limit.Quota {
		b.denials, b.until = nil, now+b.limit.BlockFor.Microseconds()
	}
}

// TestBlockEqualsItsModel puts random requests to plans of any limit and a block.
func TestBlockEqualsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(variants()).Draw(t, "variant").limit.WithName("limit")
		b := blockOf(rapid.Int64Range(1, 5).Draw(t, "denials"), rapid.Int64Range(1, 3*window(l)).Draw(t, "window"), rapid.Int64Range(1, 3*window(l)).Draw(t, "length"))
		a, model := open(t, l, b), &blockModel{limit: b}
		now := origin
		for range 60 {
			now += drawGap(t, rapid.SampledFrom([]sluice.Limit{l, l, b}).Draw(t, "of"))
			cost := rapid.Int64Range(0, l.Full()+1).Draw(t, "cost")
			op := rapid.SampledFrom([]sluice.Op{sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpPeek, sluice.OpCharge}).Draw(t, "op")
			d := a.do(now, sluice.Request{Op: op, Charge: sluice.Charge{Cost: cost}})
			if op == sluice.OpCharge {
				continue
			}
			if now < model.until {
				if d.Allowed || a.out[1].RetryAfter != dur(model.until-now) || a.out[1].Remaining != 0 {
					t.Fatalf("blocked for %v: got %+v, outcome %+v", dur(model.until-now), d, a.out[1])
				}
				continue
			}
			if !d.Allowed && !a.out[0].Allowed && op != sluice.OpPeek {
				model.deny(now)
			}
			if d.Allowed != a.out[0].Allowed || a.out[1].Allowed != (now >= model.until) || a.out[1].RetryAfter != dur(max(model.until-now, 0)) {
				t.Fatalf("%v: got %+v, outcomes %+v, the model is %+v", op, d, a.out, *model)
			}
		}
	})
}

// blocksOf returns which of denials, at instants in order, block.
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
		least, most := algo.Denials(b)
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
				end, counting = at+b.BlockFor.Microseconds(), nil
			}
		}
	})
}

// TestDenialsTight: least may be enough, and one fewer than most may be too few.
func TestDenialsTight(t *testing.T) {
	for quota := int64(1); quota <= 9; quota++ {
		b := blockOf(quota, m, h)
		least, most := algo.Denials(b)
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
	if least, most := algo.Denials(onceAnHour); least != 0 || most != 0 {
		t.Errorf("of no block: got %d, %d", least, most)
	}
}

// TestBlockedKeyRecovers: however it is pressed, the first request behind the block
// is decided by the limits alone.
func TestBlockedKeyRecovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := blockOf(rapid.Int64Range(1, 4).Draw(t, "denials"), m, rapid.Int64Range(1, 3*m).Draw(t, "length"))
		a := open(t, fixed(1, s), b)
		now := origin
		for a.items[1].State.Zero() || a.items[1].State.A > 0 {
			a.take(now, 1)
		}
		end := now + b.BlockFor.Microseconds()
		for now < end-1 {
			now += rapid.Int64Range(0, end-1-now).Draw(t, "gap")
			if d := a.take(now, 1); d.Allowed || d.RetryAfter < dur(end-now) {
				t.Fatalf("blocked until %d: got %+v at %d", end, d, now)
			}
			if rapid.Bool().Draw(t, "enough") {
				break
			}
		}
		if d := a.take(max(end, origin+s), 1); !d.Allowed {
			t.Fatalf("behind the block: got %+v", d)
		}
	})
}

// TestBlockBound: it says nothing of units, and its words say what it does.
func TestBlockBound(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"20/min block 10min", "denied for 10 minutes after the other limits have denied 20 times, and by the 38th at the latest, in any minute"},
		{"1/h block 1day", "denied for 1 day after the other limits have denied once in any hour"},
		{"2/5s block 90s", "denied for 90 seconds after the other limits have denied 2 times in any 5 seconds"},
	} {
		l := sluice.MustParseLimit(c.text)
		if got := algo.Worst(l); got != c.want {
			t.Errorf("%s: got %q, want %q", c.text, got, c.want)
		}
		if got := algo.Bound(l, time.Hour); got != math.MaxInt64 {
			t.Errorf("%s: a bound of %d units", c.text, got)
		}
		if got := algo.BoundOfChange(time.Hour, l, onceAnHour); got != math.MaxInt64 {
			t.Errorf("%s: a bound of %d units beside another", c.text, got)
		}
	}
}
