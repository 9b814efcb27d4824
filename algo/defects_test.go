// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// The tests of this file each show that a defect seen in other limiters, and in
// sample code that is copied around, is not here.

func TestDefectEntriesOfOneInstantCollide(t *testing.T) {
	for _, gap := range []int64{0, 1 * µs, 99 * µs} {
		a := open(t, log(1000, m))
		for i := range int64(1000) {
			if d := a.take(origin+i*gap, 1); !d.Allowed || d.Remaining != 999-i {
				t.Fatalf("%d µs apart: take %d: got %+v, want %d remaining", gap, i+1, d, 999-i)
			}
		}
		if d := a.take(origin+1000*gap, 1); d.Allowed {
			t.Errorf("%d µs apart: the 1001st take is allowed", gap)
		}
	}
}

func TestDefectPartialSubWindowIsDropped(t *testing.T) {
	// Dropping the part that is half out of sight admits 2·Quota within 60 s:
	// a burst at the end of a sub-window is gone when the next six begin.
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		want  int64 // second burst, 50 s and 2 µs behind the first
	}{
		{"interpolated", counter(100, m, 6), 0},
		{"conservative", with(counter(100, m, 6), conservative), 0},
	} {
		a := open(t, c.limit)
		a.take(origin+10*s-1, 100)
		if d := a.upTo(origin+60*s, 100); d.Spent != c.want {
			t.Errorf("%s: got a second burst of %d, want %d", c.name, d.Spent, c.want)
		}
	}
}

func TestDefectCounterErrorIsLeftUnsaid(t *testing.T) {
	for _, c := range []struct {
		limit sluice.Limit
		want  int64
	}{{counter(100, m, 1), 200}, {with(counter(100, m, 1), strict), 199}} {
		a := open(t, c.limit)
		first := a.upTo(origin+60*s-1, 100).Spent
		second := a.upTo(origin+120*s-3, 100).Spent
		if got, stated := first+second, algo.Bound(c.limit, dur(m)); got != stated || stated != c.want {
			t.Errorf("%v: got %d within a minute, want the stated bound %d = %d", c.limit, got, stated, c.want)
		}
	}
}

func TestDefectWindowStartDrifts(t *testing.T) {
	// A start that follows the requests would move 7 s with every window.
	a := open(t, fixed(1, m))
	for i := range int64(50) {
		at := origin + i*m + i%8*7*s
		if d := a.take(at, 1); !d.Allowed || d.ResetAfter != dur(origin+(i+1)*m-at) {
			t.Fatalf("window %d: got %+v, want a reset at the minute", i, d)
		}
	}
}

func TestDefectOldWindowIsNotCleared(t *testing.T) {
	for _, l := range []sluice.Limit{
		counter(10, m, 1), counter(10, m, 6), with(counter(10, m, 6), conservative), fixed(10, m), with(fixed(10, m), onFirst),
		log(10, m), histogram(10, m, 3),
	} {
		a := open(t, l)
		a.take(origin+30*s, 10)
		if d := a.take(origin+120*s, 10); !d.Allowed {
			t.Errorf("%v: a full window counts two windows later", l)
		}
		if d := a.take(origin+720*s, 10); !d.Allowed {
			t.Errorf("%v: a full window counts ten windows later", l)
		}
	}
}

func TestDefectOneExtraIsAdmitted(t *testing.T) {
	for _, v := range variants() {
		if v.limit.WarmUp > 0 {
			continue // one by one the units of a cold key are fewer
		}
		t.Run(v.name, func(t *testing.T) {
			a := open(t, v.limit)
			full := a.peek(origin, 0).Remaining
			if full > 1<<16 {
				t.Skip("too many to take one by one")
			}
			full = oneByOne(v.limit, full)
			for i := range full {
				if d := a.take(origin, 1); !d.Allowed {
					t.Fatalf("take %d of %d is denied", i+1, full)
				}
			}
			if d := a.take(origin, 1); d.Allowed {
				t.Errorf("take %d of %d is allowed", full+1, full)
			}
		})
	}
}

func TestDefectPreviousWindowIsNotFound(t *testing.T) {
	for _, c := range []struct {
		limit sluice.Limit
		want  int64
	}{{counter(10, m, 1), 1}, {with(counter(10, m, 1), strict), 6 * s}, {with(counter(10, m, 1), conservative), 60 * s}} {
		a := open(t, c.limit)
		a.take(origin+59*s, 10)
		if d := a.take(origin+60*s, 1); d.Allowed || d.RetryAfter != dur(c.want) {
			t.Errorf("%v: at the edge got %+v, want a denial for %d µs", c.limit, d, c.want)
		}
	}
}

func TestDefectRejectedRequestsLeak(t *testing.T) {
	a := open(t, leaky(1, s, 5, 5))
	a.take(origin, 5)
	for i := range int64(10_000) {
		if d := a.take(origin+i*99, 1); d.Allowed {
			t.Fatalf("at %d µs: allowed", i*99)
		}
	}
	if d := a.take(origin+s, 1); !d.Allowed {
		t.Error("denied requests have been counted")
	}
}

func TestDefectDivisionByZeroAboveAThousandPerSecond(t *testing.T) {
	for _, rate := range []int64{999, 1000, 1001, 1500, 1_000_000, 1_000_001, 3_000_000_000, sluice.MaxQuota} {
		for _, l := range []sluice.Limit{leaky(rate, s, 1, 1), tokens(rate, s, 1)} {
			a := open(t, l)
			if !a.take(origin, 1).Allowed || a.take(origin, 1).Allowed {
				t.Errorf("%v: want one at once", l)
			}
			if d := a.take(origin+1002, 1); !d.Allowed {
				t.Errorf("%v: denied after 1002 µs", l)
			}
		}
	}
}

func TestDefectRetryingClientNeverRecovers(t *testing.T) {
	a := open(t, log(5, m))
	var allowed int
	for at := int64(0); at < 10*m; at += s {
		if a.take(origin+at, 1).Allowed {
			allowed++
		}
	}
	if allowed != 50 {
		t.Errorf("a client that retries every second got %d in 10 min, want 50", allowed)
	}
}

func TestDefectStatesAreKeptForever(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			a := open(t, v.limit)
			first := origin
			if !startsFull(v.limit) {
				a.peek(origin, 1)
				first += 3 * window(v.limit)
			}
			a.upTo(first, 1)
			idle := a.items[0].State.Idle
			if idle <= origin {
				t.Fatalf("a used key is idle from %d, want later than %d", idle, origin)
			}
			a.reset(idle)
			if st := a.items[0].State; !st.Zero() || st.Len != 0 || st.A != 0 || st.B != 0 {
				t.Errorf("a reset key keeps %+v", st)
			}
			// What an idle state answers is what no state answers.
			b, never := open(t, v.limit), open(t, v.limit)
			b.peek(origin, 0)
			never.peek(origin, 0)
			b.upTo(first, 1)
			if got, want := b.peek(idle, 1), never.peek(idle, 1); got != want {
				t.Errorf("idle: got %+v, want that of a new key, %+v", got, want)
			}
		})
	}
}

func TestDefectStateForgottenBeforeItsDebt(t *testing.T) {
	// 1/s with a burst of 100 must not be a burst of 100 every 3 s.
	a := open(t, tokens(1, s, 100))
	a.take(origin, 100)
	if d := a.upTo(origin+3*s, 100); d.Spent != 3 {
		t.Errorf("3 s after a burst of 100 got %d, want 3", d.Spent)
	}
	// 0.1/s without a burst must not be 1/s.
	b := open(t, leaky(1, 10*s, 1, 1))
	var allowed int
	for at := int64(0); at < 100*s; at += s / 2 {
		if b.take(origin+at, 1).Allowed {
			allowed++
		}
	}
	if allowed != 10 {
		t.Errorf("0.1/s: got %d in 100 s, want 10", allowed)
	}
}

func TestDefectClockBackDrainsDebt(t *testing.T) {
	a := open(t, leaky(1, s, 1, 1))
	a.take(origin, 1)
	if d := a.take(origin-5*s, 1); d.Allowed {
		t.Error("a clock that stepped back 5 s has drained 1 unit")
	}
}

func TestDefectFastRefillLimitsNothing(t *testing.T) {
	// A refill within less than a second must still deny within an instant.
	a := open(t, tokens(1000, s, 1))
	if !a.take(origin, 1).Allowed || a.take(origin+999, 1).Allowed || !a.take(origin+1000, 1).Allowed {
		t.Error("1000/s burst 1: want one, none 999 µs later, one 1000 µs later")
	}
}
