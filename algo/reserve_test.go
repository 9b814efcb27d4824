// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

func ofAnyWindow(l sluice.Limit) bool { return testkit.Fixed(l).Calendar == sluice.NoCalendar }

// startsFull: a new key has the units of an idle one.
func startsFull(l sluice.Limit) bool {
	return ofAnyWindow(l) && testkit.Deficit(l) == 0 && !testkit.Counter(l).PreFilled
}

// TestReservationsAreServedInOrder: a later request is due no earlier, no request waits
// longer than its decision says, and a take that must not wait does not overtake.
func TestReservationsAreServedInOrder(t *testing.T) {
	eachVariant(t, ofAnyWindow, func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := drawStart(t, l)
		var last sluice.Instant
		for _, e := range drawTrace(t, l, 40, sluice.OpReserve, sluice.OpReserve, sluice.OpTake, sluice.OpPeek) {
			now += e.Gap
			d := p.step(now, e)
			if e.Op == sluice.OpPeek || !d.Allowed || d.Spent == 0 {
				continue
			}
			if e.Op == sluice.OpReserve && d.Delay > dur(e.Wait) {
				t.Fatalf("%v: waits %v of at most %d µs", l, d.Delay, e.Wait)
			}
			if d.Due != sluice.Instant(now)+sluice.Instant(d.Delay.Microseconds()) || d.At > d.Due || int64(d.At) < now {
				t.Fatalf("%v: at %d got %+v", l, now, d)
			}
			if d.At < last {
				t.Fatalf("%v: at %d got %+v, overtaking one that counts at %d", l, now, d, last)
			}
			last = d.At
		}
		checkBounds(t, l, p.admissions)
	})
}

// TestReservationIsTheEarliest: reserved units would fit at their instant and no earlier. With
// a shorter MaxWait the reservation is denied and changes nothing.
func TestReservationIsTheEarliest(t *testing.T) {
	notQueue := func(l sluice.Limit) bool {
		return ofAnyWindow(l) && !l.CountDenied && (!testkit.Is[sluice.LeakyBucket](l) || testkit.Leaky(l).DelayAfter == l.Burst)
	}
	eachVariant(t, notQueue, func(t *rapid.T, l sluice.Limit) {
		p, now := somewhere(t, l)
		cost := rapid.Int64Range(1, l.Full()).Draw(t, "cost")
		retry := p.fork().take(now, cost).RetryAfter
		if retry > sluice.MaxWait {
			return
		}
		wait := retry.Microseconds()
		if got := p.fork().reserve(now, cost, wait); !got.Allowed || got.Delay != retry || got.Spent != cost {
			t.Fatalf("%v: denied for %v, with as much patience: %+v", l, retry, got)
		}
		if wait == 0 {
			return
		}
		before := p.states()[0]
		if got := p.reserve(now, cost, wait-1); got.Allowed || got.RetryAfter != retry || got.Delay != 0 {
			t.Fatalf("%v: denied for %v, with 1 µs less of patience: %+v", l, retry, got)
		}
		if testkit.Deficit(l) == 0 && !testkit.Counter(l).PreFilled && !sameIfAlive(before, p.states()[0], now) {
			t.Fatalf("%v: a denied reservation has changed %+v to %+v", l, before, p.states()[0])
		}
	})
}

// TestRefundAdmitsNoMore: a caller that gives units back gets no more than one that has
// never taken them, whatever requests come in between and after.
func TestRefundAdmitsNoMore(t *testing.T) {
	independent := func(l sluice.Limit) bool { // of what a denial or an earlier take moves
		return startsFull(l) && !l.CountDenied && !testkit.Fixed(l).OnFirst && testkit.Token(l).Refill == sluice.Continuous &&
			!testkit.Is[sluice.SlidingHistogram](l) && testkit.Token(l).WarmUp == 0
	}
	eachVariant(t, independent, func(t *rapid.T, l sluice.Limit) {
		p := play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 15, sluice.OpTake, sluice.OpTakeUpTo, sluice.OpCharge) {
			now += e.Gap
			p.step(now, e)
		}
		now += drawGap(t, l)
		never := play(p.fork())
		cost := rapid.Int64Range(1, l.Full()).Draw(t, "cost")
		d := p.take(now, cost)
		if !d.Allowed {
			return
		}
		// What both admit in between.
		for _, e := range drawTrace(t, l, 10, sluice.OpTakeUpTo) {
			now += e.Gap
			n := min(e.Cost, p.fork().upTo(now, e.Cost).Spent, never.fork().upTo(now, e.Cost).Spent)
			if n > 0 {
				p.take(now, n)
				never.take(now, n)
			}
		}
		now += drawGap(t, l)
		part := rapid.Int64Range(0, cost).Draw(t, "part")
		p.refund(now, part, d)
		d.Spent, d.Due = cost-part, 0 // the rest is a part too
		p.refund(now, cost-part, d)
		for range 10 {
			got, most := p.fork().upTo(now, sluice.MaxQuota).Spent, never.fork().upTo(now, sluice.MaxQuota).Spent
			if got > most {
				t.Fatalf("%v: at %d a refund leaves %d, never taken %d", l, now, got, most)
			}
			n := rapid.Int64Range(0, got).Draw(t, "then")
			p.take(now, n)
			never.take(now, n)
			now += drawGap(t, l)
		}
	})
}

// TestQueueOutput: the units that a queue releases stay within Output, counted one by one at
// their instants, also when requests are cancelled.
func TestQueueOutput(t *testing.T) {
	queue := func(l sluice.Limit) bool {
		return testkit.Is[sluice.LeakyBucket](l) && testkit.Leaky(l).DelayAfter != l.Burst && l.Debt == 0
	}
	eachVariant(t, queue, func(t *rapid.T, l sluice.Limit) {
		a := open(t, l)
		var out admissions
		type queued struct{ d sluice.Decision }
		var waiting []queued
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 60, sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpRefund) {
			now += e.Gap / 4
			if e.Op == sluice.OpTake {
				d := a.take(now, 1)
				_, most := algo.Output(l, time.Second)
				if d.Delay > most {
					t.Fatalf("%v: delayed %v, want at most %v", l, d.Delay, most)
				}
				if d.Allowed {
					out.add(int64(d.Due), 1)
					waiting = append(waiting, queued{d})
				}
				continue
			}
			if i := len(waiting) - 1 - e.Pick; i >= 0 && int64(waiting[i].d.Due) > now {
				a.refund(now, 1, waiting[i].d)
				out.remove(int64(waiting[i].d.Due), 1)
				waiting = append(waiting[:i], waiting[i+1:]...)
			}
		}
		for _, d := range spans(l) {
			if most, _ := algo.Output(l, dur(d)); d > 0 && out.most(d) > most {
				t.Fatalf("%v: %d units go on within %d µs, want at most %d: %v", l, out.most(d), d, most, out)
			}
		}
	})
}

func TestOutputEdges(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		d     time.Duration
		units int64
		wait  time.Duration
	}{
		{"queue", leaky(10, s, 6, 1), time.Second, 11, 500 * time.Millisecond},
		{"thirds", leaky(3, s, 3, 1), time.Second, 4, 666_667 * time.Microsecond},
		{"meter", leaky(10, s, 6, 6), time.Second, 16, 0},
		{"no bucket", log(10, s), time.Second, 0, 0},
		{"no span", leaky(10, s, 6, 1), 0, 0, 0},
		{"no limit", sluice.Limit{Algorithm: sluice.LeakyBucket{}}, time.Second, 0, 0},
	} {
		units, wait := algo.Output(c.limit, c.d)
		if units != c.units || wait != c.wait {
			t.Errorf("%s: got %d, %v, want %d, %v", c.name, units, wait, c.units, c.wait)
		}
	}
}
