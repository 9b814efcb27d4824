// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// pressed returns the variants whose quota is small enough to press them hard,
// each counting denials.
func pressed() (list []variant) {
	for _, v := range variants() {
		if v.limit.CountDenied = true; v.limit.Validate() == nil && v.limit.Quota <= 1000 && part(v.limit) >= 100*v.limit.Quota {
			list = append(list, v)
		}
	}
	return list
}

// onTheClock reports whether a limit's windows end whatever requests come.
func onTheClock(l sluice.Limit) bool {
	return testkit.Is[sluice.FixedWindow](l) && !testkit.Fixed(l).OnFirst
}

// TestDeniedClientStaysOut: a caller that asks for a unit more often than units come back is
// denied while it presses, and served again no later than StaysOut after its last request.
func TestDeniedClientStaysOut(t *testing.T) {
	for _, v := range pressed() {
		t.Run(v.name, func(t *testing.T) {
			l := v.limit
			a, now := open(t, l), origin
			a.bare = true
			a.upTo(now, l.Full())
			if l.Debt > 0 {
				a.charge(now, l.Debt)
			}
			stop := now + 5*window(l)
			if onTheClock(l) {
				_, stop = now, now+window(l)
				if testkit.Fixed(l).Calendar != sluice.NoCalendar {
					_, stop = algo.CalendarWindow(a.plan.Term(0), now)
				}
			}
			gap := max(part(l)/(3*l.Quota), (stop-now)/200_000)
			for now += gap; now < stop; now += gap {
				if d := a.take(now, 1); d.Allowed {
					t.Fatalf("allowed %d µs after it was full, asking every %d µs", now-origin, gap)
				}
			}
			most := algo.WorstOf(l).StaysOut.Microseconds()
			if d := a.peek(now-gap, 1); d.RetryAfter.Microseconds() > most {
				t.Errorf("once it stops it stays out for %v, want %v at most", d.RetryAfter, dur(most))
			}
			if d := a.peek(now-gap+most, 1); !d.Allowed {
				t.Errorf("%d µs after the last request got a denial for %v", most, d.RetryAfter)
			}
		})
	}
}

// TestStaysOutIsReached: a caller that presses at the worst moment reaches the bound.
func TestStaysOutIsReached(t *testing.T) {
	for _, v := range pressed() {
		l := v.limit
		if testkit.Fixed(l).Calendar != sluice.NoCalendar || testkit.Deficit(l) > 0 || testkit.Counter(l).PreFilled {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			a := open(t, l)
			a.upTo(origin, l.Full())
			if l.Debt > 0 {
				a.charge(origin, l.Debt)
			}
			d := a.take(origin, 1)
			if got, want := d.RetryAfter, algo.WorstOf(l).StaysOut; got != want {
				t.Errorf("denied for %v, want %v", got, want)
			}
		})
	}
}

// TestStaysOutAfterAnyTraffic: no mix of requests and denials keeps a key out for
// longer.
func TestStaysOutAfterAnyTraffic(t *testing.T) {
	for _, v := range variants() {
		l := v.limit
		l.CountDenied = true
		if testkit.Deficit(l) > 0 || testkit.Counter(l).PreFilled || l.Validate() != nil {
			continue // the start of a rule keeps out, too
		}
		t.Run(v.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p := play(open(t, l))
				now := drawStart(t, l)
				for _, e := range drawTrace(t, l, 40) {
					now += e.Gap
					if e.Op != sluice.OpReserve {
						p.step(now, e)
					}
				}
				at := now + algo.WorstOf(l).StaysOut.Microseconds()
				if d := p.peek(at, 1); !d.Allowed && at < 1<<51 {
					t.Fatalf("%v: %v after the last request a denial for %v", l, algo.WorstOf(l).StaysOut, d.RetryAfter)
				}
			})
		})
	}
}

// TestDenialByAnotherLimitCounts: a limit counts the denials of any limit of the plan, until
// it is full.
func TestDenialByAnotherLimitCounts(t *testing.T) {
	for _, v := range variants() {
		l := v.limit
		if testkit.Deficit(l) > 0 || testkit.Counter(l).PreFilled || l.Full() < 3 || l.Full() > 1000 {
			continue
		}
		if l.CountDenied, l.Name = true, "counts"; l.Validate() != nil {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			a := open(t, l, log(1, 366*24*h).WithName("denies"))
			a.take(origin, 1)
			for n := int64(2); n <= l.Full()+2; n++ {
				if d := a.take(origin, 1); d.Allowed {
					t.Fatalf("request %d is allowed", n)
				}
				if got, want := a.out[0].Remaining, max(l.Full()-n, 0); got != want {
					t.Fatalf("after %d requests %d remain, want %d", n, got, want)
				}
			}
		})
	}
}

// TestDenialsOfAnotherQuotaKeepWhatWasAdmitted: a limit that counts denials up to
// its own quota forgets nothing that a larger one of its name has admitted.
func TestDenialsOfAnotherQuotaKeepWhatWasAdmitted(t *testing.T) {
	for _, words := range []string{"", " interval-refill", " fixed-window", " fixed-window anchor first", " sliding-counter", " sliding-counter sub-windows 6 whole", " sliding-histogram precision 3", " leaky-bucket burst 100 nodelay"} {
		t.Run(words, func(t *testing.T) {
			large, small := sluice.MustParseLimit("n: 100/min"+words), sluice.MustParseLimit("n: 10/min"+words+" count-denied")
			a := open(t, large)
			a.take(origin, 100)
			var book admissions
			book.add(origin, 100)
			for i := range int64(300) {
				now := origin + i*s/10
				a.change(small)
				book.add(now, a.take(now, 1).Spent)
				a.change(large)
				book.add(now, a.take(now, 1).Spent)
			}
			checkBoundsOfChange(t, book, small, large)
		})
	}
}
