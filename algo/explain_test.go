// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// explained returns the explanation of a request, which must not change the account, not even
// a word of a ring.
func (a *account) explained(now int64, req sluice.Request) sluice.Explanation {
	a.t.Helper()
	req.Plan = a.plan
	start := a.start
	if start == 0 || now < start {
		start = max(now, 1)
	}
	items := a.fork().items
	for i := range items {
		items[i].State, items[i].Others = a.items[i].State, a.items[i].Others // the rings themselves
		items[i].Term, items[i].Cost, items[i].Start = a.plan.Term(i), req.Cost, start
	}
	before := a.fork()
	e := algo.Explain(&req, items, now)
	after := a.fork()
	for i := range before.items {
		was, is := &before.items[i], &after.items[i]
		if !reflect.DeepEqual(was.State, is.State) || len(was.Others)+len(is.Others) > 0 && !reflect.DeepEqual(was.Others, is.Others) {
			a.t.Fatalf("%v at %d: to explain it has changed %+v, %+v to %+v, %+v", req.Op, now, was.State, was.Others, is.State, is.Others)
		}
	}
	return e
}

// TestExplainEqualsDecide: after any history of a key, under one limit or several, changed or
// not, the explanation is the next decision, and every number in its lines follows from it.
func TestExplainEqualsDecide(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		l.Name = "n"
		limits := []sluice.Limit{l}
		if rapid.Bool().Draw(t, "another") {
			limits = append(limits, tokens(5, s, 3).WithName("other"))
		}
		if rapid.IntRange(0, 3).Draw(t, "blocks") == 0 {
			limits = append(limits, sluice.MustParseLimit("b: 3/2s block 5s"))
		}
		vs := variants()
		p := play(open(t, limits...))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 12) {
			now += e.Gap
			if rapid.IntRange(0, 9).Draw(t, "change") == 0 {
				v := vs[rapid.IntRange(0, len(vs)-1).Draw(t, "to")].limit
				if rapid.Bool().Draw(t, "size only") {
					v = l
					v.Quota += 2
				}
				if v = v.WithName("n"); v.Validate() == nil {
					limits[0] = v
					p.change(limits...)
				}
			}
			if e.Op == sluice.OpTake || e.Op == sluice.OpPeek || e.Op == sluice.OpReserve {
				p.checkExplained(now, e)
			}
			p.step(now, e)
		}
	})
}

func (p *player) checkExplained(now int64, e event) {
	p.t.Helper()
	req := sluice.Request{Op: e.Op, Charge: sluice.Charge{Cost: e.Cost}}
	if e.Op == sluice.OpReserve {
		req.MaxWait = dur(e.Wait)
	}
	got := p.explained(now, req)
	f := p.fork()
	if want := f.do(now, req); got.Decision != want {
		p.t.Fatalf("%v %d at %d:\n got %+v\nwant %+v", e.Op, e.Cost, now, got.Decision, want)
	}
	for i, r := range got.Limits {
		if r.Outcome != f.out[i] {
			p.t.Fatalf("%v %d at %d, limit %d: got %+v, want %+v", e.Op, e.Cost, now, i, r.Outcome, f.out[i])
		}
		p.checkNumbers(now, req, i, &got)
	}
}

var (
	leftBefore = regexp.MustCompile(`: ([0-9.]+) left$`)
	leftAfter  = regexp.MustCompile(`; ([0-9]+) left then$|allowed, ([0-9]+) left after it$`)
	fitsIn     = regexp.MustCompile(`fits in ([^,]+), at`)
	fitNow     = regexp.MustCompile(`and ([0-9]+) fit: denied`)
	changeOf   = regexp.MustCompile(`^a (quota|burst) of ([0-9]+), in place of ([0-9]+)$`)
	costOf     = regexp.MustCompile(`^a cost of ([0-9]+) at most$`)
)

// checkNumbers compares the numbers in the i-th limit's lines with decisions.
func (p *player) checkNumbers(now int64, req sluice.Request, i int, e *sluice.Explanation) {
	p.t.Helper()
	r := &e.Limits[i]
	text := strings.Join(r.Lines, "\n")
	fail := func(format string, args ...any) {
		p.t.Helper()
		p.t.Fatalf("%v %d under %v:\n%s\n"+format+"; %+v", append([]any{req.Op, req.Cost, r.Limit, text}, append(args, r)...)...)
	}
	number := func(text string) int64 {
		n, err := strconv.ParseInt(strings.SplitN(text, ".", 2)[0], 10, 64)
		if err != nil {
			fail("%q is no number", text)
		}
		return n
	}
	if testkit.Is[sluice.Block](r.Limit) {
		return
	}
	term := p.plan.Term(i)
	for _, line := range r.Lines {
		m := leftBefore.FindStringSubmatch(line)
		if m == nil || strings.Contains(text, "reserved") || strings.Contains(text, "withholds") {
			continue
		}
		if n := number(m[1]); n != r.Room-term.Lent && n != r.Room {
			fail("%d left, of which %d fit", n, r.Room)
		}
	}
	last := r.Lines[len(r.Lines)-1]
	if m := leftAfter.FindStringSubmatch(last); m != nil && number(m[1]+m[2]) != r.Remaining {
		fail("not what remains")
	}
	if m := fitsIn.FindStringSubmatch(last); m != nil {
		if d, err := time.ParseDuration(m[1]); err != nil || d != r.RetryAfter {
			fail("not when it fits: %v", err)
		}
	} else if !r.Allowed && !r.TooLarge {
		fail("does not say when it fits")
	}
	if m := fitNow.FindStringSubmatch(last); m != nil && number(m[1]) != r.Room {
		fail("not what fits")
	}
	if strings.Contains(last, "denied;") && r.Allowed || strings.Contains(last, "allowed") && !e.Decision.Allowed {
		fail("another outcome")
	}
	p.checkRoom(now, i, r, fail)
	p.checkChanges(now, req, i, r, fail, number)
}

// checkRoom checks that the Room is the largest cost that fits.
func (p *player) checkRoom(now int64, i int, r *sluice.Reason, fail func(string, ...any)) {
	p.t.Helper()
	fits := func(cost int64) bool {
		f := p.fork()
		f.peek(now, cost)
		return f.out[i].Allowed
	}
	if r.Room > 0 && !fits(r.Room) || fits(r.Room+1) {
		fail("room for %d", r.Room)
	}
}

// checkChanges checks that each proposed change helps, and that one unit less does not.
func (p *player) checkChanges(now int64, req sluice.Request, i int, r *sluice.Reason, fail func(string, ...any), number func(string) int64) {
	p.t.Helper()
	for _, c := range r.Changes {
		if m := costOf.FindStringSubmatch(c); m != nil {
			continue // that is the room
		}
		m := changeOf.FindStringSubmatch(c)
		if m == nil {
			fail("a change %q", c)
		}
		for less := range int64(2) {
			f := p.fork()
			l := f.plan.Term(i).Limit
			f.plan, f.items, f.out = compile(f.t, l), f.items[i:i+1], f.out[:1] // without the other limits
			size := &l.Quota
			if m[1] == "burst" {
				size = &l.Burst
			}
			*size = number(m[2]) - less
			f.change(l)
			if d := f.do(now, req); d.Allowed == (less == 1) {
				fail("%s: with %d less it is %+v", c, less, d)
			}
		}
	}
}

// TestExplainWords: the lines of each algorithm for an operator.
func TestExplainWords(t *testing.T) {
	at := origin + 12*h
	for _, c := range []struct {
		limit  string
		spends []int64 // a second apart, the last now
		cost   int64
		want   string
	}{
		{"10/min burst 20", []int64{20, 0}, 3, "10 come back in 1m0s, one every 6s|burst 20, 19.834 owed: 0.166 left|costs 3: denied; it fits in 17s, at 12:00:18 UTC|+a burst of 23, in place of 20"},
		{"10/min burst 20", nil, 3, "10 come back in 1m0s, one every 6s|burst 20, 0 owed: 20 left|costs 3: allowed, 17 left after it"},
		{"10/min burst 20", nil, 30, "10 come back in 1m0s, one every 6s|burst 20, 0 owed: 20 left|costs 30: denied for good, as the limit never has more than 20|+a cost of 20 at most|+a burst of 30, in place of 20"},
		{"100/min fixed-window", []int64{97, 0}, 4, "window 12:00:00 to 12:01:00 UTC counts 97 of 100: 3 left|costs 4, and 3 fit: denied; it fits in 59s, at 12:01:00 UTC|+a cost of 3 at most|+a quota of 101, in place of 100"},
		{"4/2s sliding-counter", []int64{4, 0, 0}, 3, "since 12:00:02 UTC it counts 0|the 2s before that count 4, of which 2s are in sight: 4, rounded down|together 4 of 4: 0 left|costs 3: denied; it fits in 1.000001s, at 12:00:03.000001 UTC|+a quota of 7, in place of 4"},
		{"3/min sliding-log", []int64{1, 2}, 1, "counts 3 of 3: 0 left|the oldest unit, from 12:00:00 UTC, expires at 12:01:00 UTC|costs 1: denied; it fits in 59s, at 12:01:00 UTC|+a quota of 4, in place of 3"},
		{"2/s warm-up 4s", []int64{1, 0}, 1, "2 come back in 1s, one every 500ms|burst 1, 0.75 owed: 0.25 left|warm-up 4s, 500ms of it used: until the key is warm, its units last 1.125s longer in all|costs 1: denied; it fits in 375ms, at 12:00:01.375 UTC|+a burst of 2, in place of 1"},
		{"10/min burst 20 interval-refill", []int64{20, 0}, 3, "up to 10 come back at once every 1m0s from the take that found it full|spent 20 of 20: 0 left|the next come back at 12:01:00 UTC|costs 3: denied; it fits in 59s, at 12:01:00 UTC|+a burst of 23, in place of 20"},
	} {
		a := open(t, sluice.MustParseLimit(c.limit))
		now := at
		for i, n := range c.spends {
			if now = at + int64(i)*s; n > 0 {
				a.charge(now, n)
			}
		}
		r := a.explained(now, sluice.Request{Charge: sluice.Charge{Cost: c.cost}}).Limits[0]
		got := strings.Join(r.Lines, "|")
		for _, change := range r.Changes {
			got += "|+" + change
		}
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.limit, got, c.want)
		}
	}
}

// TestExplainCredit: the lines distinguish credit from the burst.
func TestExplainCredit(t *testing.T) {
	a := open(t, sluice.MustParseLimit("10/min burst 20 credit 30 credit-for 24h"))
	a.add(origin, 5)
	r := a.explained(origin+h, sluice.Request{Charge: sluice.Charge{Cost: 26}}).Limits[0]
	want := "10 come back in 1m0s, one every 6s|burst 20, nothing owed, and credit 5 until 2026-01-02 00:00:00 UTC: 25 left|costs 26: denied for good, as the limit never has more than 25"
	if got := strings.Join(r.Lines, "|"); got != want || r.Room != 25 {
		t.Errorf("got %s, room for %d\nwant %s", got, r.Room, want)
	}
}
