// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
)

// TestBlockChanges: all blocks of one name share a state. Counted denials stay, and a blocked
// key stays blocked until the end of its block.
func TestBlockChanges(t *testing.T) {
	named := func(l sluice.Limit) sluice.Limit { return l.WithName("b") }
	before := named(blockOf(4, m, 10*m))
	for _, c := range []struct {
		name    string
		denials int // before the change
		after   sluice.Limit
		at      int64 // of one more denial
		retry   int64 // 0 if it is not blocked then
	}{
		{"fewer denials", 3, named(blockOf(2, m, 10*m)), 30 * s, 10 * m},
		{"more denials", 3, named(blockOf(5, m, 10*m)), 30 * s, 0},
		{"as many as were left", 3, named(blockOf(4, m, 7*m)), 30 * s, 7 * m},
		{"a shorter window that has ended", 3, named(blockOf(4, 30*s, 7*m)), 30 * s, 0},
		{"a shorter window that has not", 3, named(blockOf(4, 30*s, 7*m)), 30*s - 1, 7 * m},
		{"a longer window", 3, named(blockOf(4, h, 7*m)), m - 1, 7 * m},
		{"a longer window, behind the first", 3, named(blockOf(4, h, 7*m)), m, 0},
		{"a shorter block", 4, named(blockOf(4, m, 1*s)), 4 * m, 6 * m},
		{"a longer block", 4, named(blockOf(4, m, 24*h)), 4 * m, 6 * m},
		{"a block of another window", 4, named(blockOf(1, 24*h, 24*h)), 4 * m, 6 * m},
	} {
		limit := log(1, 48*h)
		a := open(t, limit, before)
		a.take(origin-1, 1)
		for range c.denials {
			a.take(origin, 1)
		}
		a.change(limit, c.after)
		a.take(origin+c.at, 1)
		if got := a.out[1].RetryAfter; got != dur(c.retry) {
			t.Errorf("%s: blocked for %v, want %v", c.name, got, dur(c.retry))
		}
	}
}

// TestBlockToAndFro: a caller that can choose between two blocks of a name evades neither.
func TestBlockToAndFro(t *testing.T) {
	limit, short, long := log(1, 48*h), blockOf(3, m, 10*m).WithName("b"), blockOf(9, h, h).WithName("b")
	a := open(t, limit, short)
	a.take(origin-1, 1)
	for range 3 {
		a.change(limit, short)
		a.take(origin, 1)
		a.change(limit, long)
		a.peek(origin, 1)
	}
	for at := origin; at < origin+10*m; at += m {
		for _, l := range []sluice.Limit{long, short} {
			a.change(limit, l)
			if d := a.take(at, 1); a.out[1].RetryAfter != dur(origin+10*m-at) {
				t.Fatalf("at %v under %v: got %+v, outcome %+v", dur(at-origin), l, d, a.out[1])
			}
		}
	}
}

// TestBlockBesideOtherForms: a limit of units becomes a block of the same name, and back. No
// unit counts as a denial, and no denial as a unit.
func TestBlockBesideOtherForms(t *testing.T) {
	guard := fixed(1, h).WithName("guard")
	for _, v := range variants() {
		if testkit.Fixed(v.limit).Calendar != sluice.NoCalendar || testkit.Deficit(v.limit) > 0 || testkit.Counter(v.limit).PreFilled {
			continue // its initial deficit stays, whatever was taken
		}
		old, b := v.limit.WithName("x"), blockOf(2, m, 10*m).WithName("x")
		alone := open(t, guard, old)
		alone.start = origin - h
		alone.take(origin, 1)
		want := alone.peek(origin+s, 0)

		a := open(t, guard, old)
		a.start = origin - h
		a.take(origin, 1)
		a.change(guard, b)
		for range 3 {
			a.take(origin+s, 1)
		}
		if a.out[1].RetryAfter != 10*time.Minute {
			t.Errorf("%s: under the block: got %+v", v.name, a.out[1])
		}
		a.change(guard, old)
		if got := a.peek(origin+s, 0); got != want {
			t.Errorf("%s: back under the limit: got %+v, want %+v", v.name, got, want)
		}
		a.take(origin+s, 0)
		a.change(guard, b)
		if a.peek(origin+s, 0); a.out[1].RetryAfter != 10*time.Minute {
			t.Errorf("%s: and under the block again: got %+v", v.name, a.out[1])
		}
	}
}

// TestBlockMakesNoRoom: if a name has too many forms, a block counts in none of the others,
// and makes no room for them.
func TestBlockMakesNoRoom(t *testing.T) {
	guard, b := fixed(1, h).WithName("guard"), blockOf(2, m, 10*m).WithName("x")
	forms := []sluice.Limit{log(9, h), log(9, 2*h), counter(9, h, 1), fixed(9, h), log(9, 3*h)}
	for first := range 2 {
		a := open(t, guard, b)
		a.take(origin, 1)
		list := []sluice.Limit{b, forms[0].WithName("x"), forms[1].WithName("x"), forms[2].WithName("x"), forms[3].WithName("x"), forms[4].WithName("x"), b}[first:]
		a.change(guard, list[0])
		for i, l := range list {
			a.change(guard, l)
			if l == b {
				a.take(origin+s, 1)
				a.take(origin+s, 1)
				if a.out[1].RetryAfter < 10*time.Minute-3*time.Second {
					t.Errorf("limit %d of %d forms: the key is not blocked: %+v", i, len(list), a.out[1])
				}
				continue
			}
			a.charge(origin+s, 1)
		}
	}
}

// TestBlockWhenTheClockStepsBack: a block or a window lasts no longer than without the step,
// and is not cut short.
func TestBlockWhenTheClockStepsBack(t *testing.T) {
	for _, c := range []struct {
		name   string
		back   int64
		blocks int64 // how long, 0: the key is not blocked but has counted
	}{
		{"a little", 10 * s, 10 * m},
		{"an hour", h, 10 * m},
		{"to the beginning", origin, 10 * m},
	} {
		limit := log(1, 48*h)
		a := open(t, limit, blockOf(3, m, 10*m))
		a.take(origin-1, 1)
		for range 3 {
			a.take(origin, 1)
		}
		if a.take(origin-c.back, 1); a.out[1].RetryAfter != dur(c.blocks) {
			t.Errorf("%s: blocked for %v, want %v", c.name, a.out[1].RetryAfter, dur(c.blocks))
		}
		a = open(t, limit, blockOf(3, m, 10*m))
		a.take(origin-1, 1)
		for i := range 3 {
			a.take(origin-c.back*int64(i/2), 1)
		}
		if a.out[1].RetryAfter != 10*time.Minute {
			t.Errorf("%s: the third denial, behind the step, says %v", c.name, a.out[1])
		}
	}
}
