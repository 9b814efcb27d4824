// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestInvariant12ClockBackGrantsNothing lets the clock step back and forth. Measured at the
// latest instants of the counted units, no bound is exceeded, as long as the clock does not go
// back behind an instant at which the key was idle and had no state, or further than a state
// may be ahead.
func TestInvariant12ClockBackGrantsNothing(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p := open(t, l)
		var book admissions
		now := drawStart(t, l)
		latest, idle := int64(0), int64(0)
		for _, e := range drawTrace(t, l, 40, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge) {
			if now += e.Gap; rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				now = max(now-rapid.Int64Range(1, 2*window(l)).Draw(t, "by"), 0)
				now = max(now, latest-window(l)/2)
			}
			now = max(now, idle)
			if p.items[0].Term != nil && p.items[0].Ahead(now) {
				now = latest
			}
			if p.items[0].State.Idle <= now {
				idle = now
			}
			got := p.peek(now, 1).Remaining
			if before := p.peek(max(now, latest), 1).Remaining; got > before {
				t.Fatalf("%v: %d remain at %d, but %d when the clock shows %d less", l, before, latest, got, latest-now)
			}
			d := p.do(now, sluice.Request{Op: e.Op, Charge: sluice.Charge{Cost: e.Cost}})
			if d.Spent > 0 || l.CountDenied && !d.Allowed {
				latest = max(now, latest)
			}
			if d.Spent > 0 {
				book.add(latest, d.Spent)
			}
		}
		checkBounds(t, l, book)
	})
}

// stall is the longest time that a key can be denied because the clock stepped back: the time
// that a state can be ahead, plus its debt.
func stall(l sluice.Limit) int64 {
	full := l.Filled()
	w := window(l)
	refill := (full.Full()+l.Debt)*w/l.Quota + w
	if testkit.Fixed(l).Calendar != sluice.NoCalendar {
		w += 48 * h
	}
	return 2*(w+refill) + 3*part(l) + sluice.MaxWait.Microseconds()
}

func TestInvariant12ClockBackStallsForALimitedTime(t *testing.T) {
	// A rule that starts with less starts anew where the clock steps back behind its start.
	eachVariant(t, startsFull, func(t *rapid.T, l sluice.Limit) {
		p, now := somewhere(t, l)
		now += rapid.OneOf(rapid.Int64Range(0, 10*s), rapid.Int64Range(0, 400*24*h)).Draw(t, "ahead")
		p.step(now, event{Op: sluice.OpTakeUpTo, Cost: sluice.MaxQuota})
		back := now - rapid.OneOf(rapid.Int64Range(0, 3*window(l)), rapid.Int64Range(0, 1000*24*h), rapid.Just(now)).Draw(t, "back")
		d := p.take(back, 1)
		if d.Allowed {
			t.Fatalf("%v: everything was spent at %d, but at %d a unit is there", l, now, back)
		}
		if got, most := d.RetryAfter.Microseconds(), stall(l); got > most {
			t.Fatalf("%v: denied for %d µs, want at most %d", l, got, most)
		}
		if again := p.take(back+d.RetryAfter.Microseconds(), 1); !again.Allowed && !l.CountDenied {
			t.Fatalf("%v: at %d denied for %v, and then again: %+v", l, back, d.RetryAfter, again)
		}
	})
}

// TestClockBackAndForth: a clock that steps by any amount grants at most a new key for each
// step back. Until the next state that is too far ahead, or that was idle and dropped, no
// bound is exceeded.
func TestClockBackAndForth(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p := open(t, l)
		var book admissions
		now := drawStart(t, l) + 1000*window(l)
		latest, idle := int64(0), int64(0)
		for _, e := range drawTrace(t, l, 60, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge) {
			if now += e.Gap; rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				by := rapid.OneOf(rapid.Int64Range(1, 3*window(l)), rapid.Int64Range(1, 40*24*h)).Draw(t, "by")
				now = max(now-by, 0)
			}
			if now < idle || p.items[0].Term != nil && p.items[0].Ahead(now) {
				checkBounds(t, l, book)
				book, latest, idle = nil, 0, 0
			}
			if p.items[0].State.Idle <= now {
				idle = now
			}
			d := p.do(now, sluice.Request{Op: e.Op, Charge: sluice.Charge{Cost: e.Cost}})
			if d.Spent > 0 || l.CountDenied && !d.Allowed {
				latest = max(now, latest)
			}
			if d.Spent > 0 {
				book.add(latest, d.Spent)
			}
		}
		checkBounds(t, l, book)
	})
}

// longest returns the longest wait, because the clock stepped back, of a key that had units
// left: a window, or the time in which its largest debt is paid.
func longest(l sluice.Limit) int64 {
	f, w := l.Filled(), window(l)
	switch {
	case f.Burst > 0 && testkit.Token(f).Refill != sluice.Continuous:
		w *= (f.Burst + f.Debt + l.Quota - 1) / l.Quota
	case f.Burst > 0:
		w = (f.Burst+f.Debt)*w/l.Quota + 1 + testkit.Token(f).WarmUp.Microseconds()/2
	case testkit.Is[sluice.SlidingCounter](l):
		w += part(l) // as long as it may be without a step
	case testkit.Fixed(l).Calendar != sluice.NoCalendar:
		w += 48 * h
	}
	return w
}

func TestClockBackWithUnitsLeft(t *testing.T) {
	eachVariant(t, startsFull, func(t *rapid.T, l sluice.Limit) {
		p := open(t, l)
		now := drawStart(t, l) + 60*24*h
		for _, e := range drawTrace(t, l, 20, sluice.OpTake, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge) {
			now += e.Gap
			p.do(now, sluice.Request{Op: e.Op, Charge: sluice.Charge{Cost: e.Cost}})
		}
		if p.peek(now, 1).Remaining == 0 {
			return
		}
		back := now - rapid.OneOf(
			rapid.SampledFrom([]int64{1, s, 59 * m, 61 * m, 40 * 24 * h}), rapid.Int64Range(0, 3*window(l)),
		).Draw(t, "back")
		d := p.take(back, 1)
		if d.Allowed {
			return
		}
		if got, most := d.RetryAfter.Microseconds(), longest(l); got > most {
			t.Fatalf("%v: %d back: denied for %d µs, want at most %d", l, now-back, got, most)
		}
		if again := p.take(back+d.RetryAfter.Microseconds(), 1); !again.Allowed && !l.CountDenied {
			t.Fatalf("%v: %d back: denied for %v, and then again: %+v", l, now-back, d.RetryAfter, again)
		}
	})
}

func TestInvariant12ForwardJumpGrantsAtMostFull(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p, now := somewhere(t, l)
		now += rapid.Int64Range(0, math.MaxInt64-now).Draw(t, "jump")
		if d := p.upTo(now, sluice.MaxQuota); d.Spent > l.Full() {
			t.Fatalf("%v: a jump to %d grants %d", l, now, d.Spent)
		}
		if d := p.upTo(now, sluice.MaxQuota); d.Spent != 0 {
			t.Fatalf("%v: a jump to %d grants %d more", l, now, d.Spent)
		}
	})
}

func TestTimeStartsAtZero(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := int64(0)
		for i, e := range drawTrace(t, l, 40) {
			d := p.step(now, e)
			if i == 0 && d.At < 0 {
				t.Fatalf("got %+v", d)
			}
			now += e.Gap
		}
		checkBounds(t, l, p.admissions)
	})
}

func TestTimeBeforeZeroIsZero(t *testing.T) {
	for _, v := range variants() {
		for _, now := range []int64{-1, math.MinInt64} {
			a, b := open(t, v.limit), open(t, v.limit)
			if got, want := a.upTo(now, 3), b.upTo(0, 3); got != want {
				t.Errorf("%s at %d: got %+v, want as at 0 %+v", v.name, now, got, want)
			}
			if got, want := a.take(5, 1), b.take(5, 1); got != want {
				t.Errorf("%s at %d, then 5: got %+v, want %+v", v.name, now, got, want)
			}
		}
	}
}

// TestTimeHasAnEnd: at the end of int64 time stops, and nothing overflows.
func TestTimeHasAnEnd(t *testing.T) {
	for _, v := range variants() {
		for _, now := range []int64{1<<52 - 1, 1 << 52, 1 << 53, math.MaxInt64} {
			p := play(open(t, v.limit))
			for range 20 {
				for _, op := range []sluice.Op{sluice.OpTakeUpTo, sluice.OpReserve, sluice.OpCharge, sluice.OpTake, sluice.OpRefund} {
					d := p.step(now, event{Op: op, Cost: 2, Wait: 3600 * s})
					if d.At <= 0 || d.Due <= 0 || d.RetryAfter < 0 || d.ResetAfter < 0 || d.Remaining < 0 || d.Remaining > v.limit.Full() {
						t.Fatalf("%s: %v at %d: got %+v", v.name, op, now, d)
					}
				}
			}
			if d := p.upTo(now, 1); testkit.Deficit(v.limit) == 0 && d.Allowed {
				if again := p.upTo(now, sluice.MaxQuota); p.upTo(now, 1).Allowed {
					t.Errorf("%s at %d: everything is spent by %+v, and a unit is there", v.name, now, again)
				}
			}
		}
	}
}

// TestStartIsTheRules: the units withheld at a rule's start are earned once by the rule and
// not by each key, so that a rare caller is served.
func TestStartIsTheRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		first int64 // remaining at first
		full  int64 // µs until all are there
	}{
		{"deficit", with(tokens(10, s, 10), deficit(6)), 4, 600 * ms},
		{"all deficit", with(tokens(3, s, 3), deficit(3)), 0, s},
		{"deficit in thirds", with(tokens(3, s, 5), deficit(4)), 1, 1_333_334},
		{"interval deficit", with(tokens(3, s, 10), byInterval, deficit(5)), 5, 2 * s},
		{"aligned deficit", with(tokens(3, s, 10), aligned, deficit(5)), 5, 2 * s},
		{"pre-filled", with(counter(10, s, 1), strict, preFilled), 0, s},
		{"6 sub-windows pre-filled", with(counter(12, 6*ms, 6), strict, preFilled), 0, 6 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			full, w := c.limit.Full(), window(c.limit)
			a := open(t, c.limit)
			if d := a.take(origin, full); d.Allowed || d.Remaining != c.first || d.ResetAfter != dur(c.full) {
				t.Fatalf("at first got %+v, want %d remaining and full after %d µs", d, c.first, c.full)
			}
			for _, step := range []struct {
				at   int64
				want bool
			}{{c.full - 1, false}, {c.full, true}, {c.full + w, true}, {c.full + 100*w, true}} {
				if d := a.fork().take(origin+step.at, full); d.Allowed != step.want {
					t.Errorf("%d µs later a take of all: got %+v, want allowed %v", step.at, d, step.want)
				}
			}
			served := 0
			for i := range int64(20) {
				if a.take(origin+i*3*w, 1).Allowed {
					served++
				}
			}
			if served < 19 {
				t.Errorf("a client that comes every 3 windows is served %d of 20 times, want 19", served)
			}
		})
	}
}

// TestPreFilledNeverStartsWithABurst: before its first window has passed a
// pre-filled key gets no more than the rate: rounded up, or down if it is strict.
func TestPreFilledNeverStartsWithABurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := with(counter(rapid.Int64Range(1, 1000).Draw(t, "quota"), 6*s, rapid.SampledFrom([]int{1, 2, 3, 6}).Draw(t, "n")), preFilled)
		testkit.Set(&l, func(c *sluice.SlidingCounter) { c.Strict = rapid.Bool().Draw(t, "strict") })
		a := open(t, l)
		start := drawStart(t, l)
		edge := start - start%part(l) // the pre-filled window ends here
		var spent int64
		for now := start; now < start+window(l); now += rapid.Int64Range(1, s).Draw(t, "gap") {
			spent += a.upTo(now, l.Quota).Spent
			most := l.Quota * (now - edge)
			if !testkit.Counter(l).Strict {
				most += window(l) - 1
			}
			if most /= window(l); testkit.Counter(l).SubWindows > 1 {
				most += l.Quota/int64(testkit.Counter(l).SubWindows) + 1 // each sub-window of the fill gives back its share as it leaves
			}
			if spent > most {
				t.Fatalf("%v: %d µs into the fill got %d", l, now-edge, spent)
			}
		}
	})
}

func TestSizeHoldsEveryState(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40) {
			now += e.Gap
			p.step(now, e)
			st := p.items[0].State
			switch term := p.plan.Term(0); {
			case term.OneWord && (st.B != 0 || st.Reserved && term.Burst > 0 || st.A < 0 || st.A > term.MostInWord),
				!term.Ring && (st.Ring != nil || st.Len != 0 || st.Head != 0):
				t.Fatalf("%v: the size of its states does not hold %+v", l, st)
			}
			if st.Len > len(st.Ring) || st.Head > len(st.Ring) || st.Idle < 0 {
				t.Fatalf("%v: %+v", l, st)
			}
		}
	})
}
