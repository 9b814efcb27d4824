// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

func blockOf(denials, window, length int64) sluice.Limit {
	return limit(sluice.Block{For: dur(length)}, denials, window)
}

// onceAnHour is the limit beside the block in most tests: after one unit it denies for the
// rest of the hour.
var onceAnHour = fixed(1, h)

// TestBlockCountsDenials walks through a window and a block.
func TestBlockCountsDenials(t *testing.T) {
	a := open(t, fixed(2, 10*s), blockOf(3, m, 5*m))
	for _, c := range []struct {
		at      int64
		allowed bool
		retry   int64 // from at
		binding int
	}{
		{0, true, 0, 0},
		{0, true, 0, 0},
		{1 * s, false, 9 * s, 0},  // the first denial opens a window
		{9 * s, false, 1 * s, 0},  // the second
		{10 * s, true, 0, 0},      // allowed requests count for nothing
		{11 * s, true, 0, 0},      //
		{12 * s, false, 5 * m, 1}, // the third blocks
		{21 * s, false, 5*m - 9*s, 1},
		{5*m + 12*s - 1, false, 1, 1}, // further requests do not prolong the block
		{5*m + 12*s, true, 0, 0},
		{5*m + 13*s, true, 0, 0},
		{5*m + 14*s, false, 6 * s, 0}, // the count starts anew
		{5*m + 15*s, false, 5 * s, 0},
		{6*m + 14*s, true, 0, 0},
		{6*m + 14*s, true, 0, 0},
		{6*m + 14*s, false, 6 * s, 0}, // a minute after the first: another window
		{6*m + 15*s, false, 5 * s, 0},
		{6*m + 16*s, false, 5 * m, 1},
	} {
		d := a.take(origin+c.at, 1)
		if d.Allowed != c.allowed || d.RetryAfter != dur(c.retry) || d.Binding != c.binding {
			t.Fatalf("at %v: got allowed %v, retry after %v, limit %d binds; want %v, %v, %d", dur(c.at), d.Allowed, d.RetryAfter, d.Binding, c.allowed, dur(c.retry), c.binding)
		}
		if o := a.out[1]; o.Allowed != (c.binding == 0) || o.Allowed != (o.Remaining == sluice.MaxQuota) || !o.Allowed && o.Remaining != 0 {
			t.Fatalf("at %v: the block's outcome is %+v", dur(c.at), o)
		}
	}
}

// TestBlockOfAnyCost: a cost that can never fit is a denial, a cost of 0 is denied while
// the key is blocked, and a request counts once whatever its cost.
func TestBlockOfAnyCost(t *testing.T) {
	a := open(t, tokens(5, m, 5), blockOf(3, m, h))
	a.take(origin, 6)
	a.take(origin, 1000)
	if d := a.take(origin, 5); !d.Allowed {
		t.Fatalf("after two denials: got %+v", d)
	}
	if d := a.take(origin, 4); d.RetryAfter != time.Hour || d.Binding != 1 {
		t.Fatalf("the third denial: got %+v", d)
	}
	for _, cost := range []int64{0, 1, sluice.MaxQuota} {
		if d := a.peek(origin+30*m, cost); d.Allowed || cost <= 5 && d.RetryAfter != 30*time.Minute {
			t.Errorf("cost %d of a blocked key: got %+v", cost, d)
		}
	}
	if d := a.upTo(origin+30*m, 5); d.Allowed {
		t.Errorf("as many as there are, of a blocked key: got %+v", d)
	}
}

// TestBlockOperations: only takes count.
func TestBlockOperations(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     func(a *account, now int64) sluice.Decision
		counts bool
	}{
		{"take", func(a *account, now int64) sluice.Decision { return a.take(now, 1) }, true},
		{"take up to", func(a *account, now int64) sluice.Decision { return a.upTo(now, 7) }, true},
		{"peek", func(a *account, now int64) sluice.Decision { return a.peek(now, 1) }, false},
		{"reserve", func(a *account, now int64) sluice.Decision { return a.reserve(now, 1, 1) }, false},
		{"charge", func(a *account, now int64) sluice.Decision { return a.charge(now, 1) }, false},
		{"refund", func(a *account, now int64) sluice.Decision { return a.refund(now, 0, sluice.Decision{At: 1}) }, false},
	} {
		a := open(t, onceAnHour, blockOf(4, m, 10*m))
		a.take(origin, 1)
		for range 4 {
			c.do(a, origin+s)
		}
		if got := a.items[1].State.A == 0 && !a.items[1].State.Zero(); got != c.counts {
			t.Errorf("%s, four times: blocked is %v, want %v", c.name, got, c.counts)
		}
		if !c.counts && !a.items[1].State.Zero() {
			t.Errorf("%s: left %+v", c.name, a.items[1].State)
		}
	}
}

// TestBlockReset: a reset unblocks a caller that was blocked by mistake.
func TestBlockReset(t *testing.T) {
	a := open(t, onceAnHour, blockOf(2, m, 10*m))
	for range 4 {
		a.take(origin, 1)
	}
	a.reset(origin + s)
	if d := a.take(origin+s, 1); !d.Allowed || !a.items[1].State.Zero() {
		t.Errorf("after a reset: got %+v, state %+v", d, a.items[1].State)
	}
}

// TestBlockChargesAndRefunds: a blocked key is charged for costs known only now, and gets
// unused units back.
func TestBlockChargesAndRefunds(t *testing.T) {
	a := open(t, with(log(5, h), debtOf(3)), blockOf(1, m, 10*m))
	taken := a.take(origin, 5)
	a.take(origin, 1)
	if d := a.charge(origin+s, 2); d.Spent != 2 || a.out[0].Spent != 2 || a.out[1].Spent != 2 {
		t.Errorf("charge: got %+v, outcomes %+v", d, a.out)
	}
	if d := a.refund(origin+s, 4, taken); d.Spent != -4 {
		t.Errorf("refund: got %+v", d)
	}
	if d := a.take(origin+s, 1); d.Allowed || d.Binding != 1 {
		t.Errorf("got %+v, want that the key is still blocked", d)
	}
}

// TestBlockWaits: a reservation on a blocked key is due when the block ends.
func TestBlockWaits(t *testing.T) {
	a := open(t, onceAnHour, blockOf(1, m, 2*h))
	a.take(origin, 1)
	a.take(origin, 1)
	if d := a.reserve(origin+90*m, 1, 30*m-1); d.Allowed || d.RetryAfter != 30*time.Minute {
		t.Errorf("within less than the block: got %+v", d)
	}
	if d := a.reserve(origin+90*m, 1, 30*m); !d.Allowed || d.Delay != 30*time.Minute {
		t.Errorf("within the block: got %+v", d)
	}
}

// TestBlockIsOfTheKeyThatIsDenied: a denial by a limit of another key, such as a global one,
// counts only for that key.
func TestBlockIsOfTheKeyThatIsDenied(t *testing.T) {
	client := compile(t, fixed(100, h), blockOf(3, m, 10*m))
	house := compile(t, onceAnHour.WithName("house"), blockOf(5, m, h).WithName("block.house"))
	items := make([]algo.Item, 4)
	do := func(now int64) (d sluice.Decision, out sluice.Outcomes) {
		out = make(sluice.Outcomes, 4)
		req := sluice.Request{Charge: sluice.Charge{Plan: client, Key: "client", Cost: 1}, More: []sluice.Charge{{Plan: house, Key: "all", Cost: 1}}, Outcomes: &out}
		for i := range items {
			items[i].Term, items[i].Cost = []*sluice.Plan{client, house}[i/2].Term(i%2), 1
		}
		return algo.Decide(&req, items, now), out
	}
	do(origin)
	for range 4 {
		do(origin + s)
	}
	if st := items[1].State; !st.Zero() {
		t.Errorf("the client's block has counted what the house denied: %+v", st)
	}
	if d, out := do(origin + s); d.Binding != 3 || d.RetryAfter != time.Hour || !out[0].Allowed || !out[1].Allowed || out[2].Allowed {
		t.Errorf("the fifth denial: got %+v, outcomes %+v", d, out)
	}
	if d, _ := do(origin + m); d.Binding != 3 || items[1].State.A != 0 {
		t.Errorf("while the house is blocked: got %+v", d)
	}
}

// TestDenyCountsOwnDenialsAlone: if a limit decided elsewhere denies, a block counts only
// if a limit beside it denies, too.
func TestDenyCountsOwnDenialsAlone(t *testing.T) {
	a := open(t, onceAnHour, blockOf(2, m, 10*m))
	deny := func(now int64) {
		for i := range a.items {
			a.items[i].Term, a.items[i].Cost = a.plan.Term(i), 1
		}
		algo.DecidePart(&sluice.Request{Charge: sluice.Charge{Plan: a.plan, Cost: 1}}, a.items, now, true, 0)
	}
	deny(origin)
	if !a.items[1].State.Zero() {
		t.Fatalf("the limit beside it has room: counted %+v", a.items[1].State)
	}
	a.take(origin, 1)
	deny(origin)
	deny(origin)
	if a.take(origin, 1); a.out[1].RetryAfter != 10*time.Minute {
		t.Errorf("got %+v, want a blocked key", a.out[1])
	}
}

// TestSeveralBlocks: each block counts by itself, and while one blocks, none counts.
func TestSeveralBlocks(t *testing.T) {
	a := open(t, onceAnHour, blockOf(2, m, 2*m).WithName("short"), blockOf(4, 30*m, 24*h).WithName("long"))
	a.take(origin, 1)
	a.take(origin, 1)
	a.take(origin, 1)
	for range 10 {
		if d := a.take(origin+s, 1); d.RetryAfter != 59*time.Minute+59*time.Second || a.items[2].State.A != 2 {
			t.Fatalf("while blocked: got %+v, the other has %+v", d, a.items[2].State)
		}
	}
	a.take(origin+2*m, 1)
	if d := a.take(origin+2*m, 1); d.Binding != 2 || d.RetryAfter != 24*time.Hour {
		t.Errorf("the fourth denial in half an hour: got %+v", d)
	}
}

// TestBlockNeverBindsByUnits: the units left after an allowed request are those of another
// limit.
func TestBlockNeverBindsByUnits(t *testing.T) {
	for _, v := range variants() {
		a := open(t, blockOf(2, m, m).WithName("block"), v.limit.WithName("limit"))
		for _, cost := range []int64{0, 1, v.limit.Full()} {
			if d := a.peek(origin, cost); d.Allowed && d.Binding != 1 {
				t.Errorf("%s: a cost of %d is allowed, and the block binds: %+v", v.name, cost, d)
			}
		}
	}
}
