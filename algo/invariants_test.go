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

// somewhere plays a random trace and returns its account and an instant a little later: an
// arbitrary state.
func somewhere(t *rapid.T, l sluice.Limit) (*player, int64) {
	p := play(open(t, l))
	now := drawStart(t, l)
	for _, e := range drawTrace(t, l, 25) {
		now += e.Gap
		p.step(now, e)
	}
	return p, now + drawGap(t, l)
}

func TestInvariant08PacedClientIsNeverDenied(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		limit sluice.Limit
		units int64 // units that may come
		every int64 // per so many µs
	}{
		{"log", log(7, s), 7, s},
		{"log 65537 per min", log(65_536, m), 65_536, m},
		{"log of one", log(1, s), 1, s},
		{"fixed", fixed(7, s), 7, s},
		{"fixed on first", with(fixed(7, s), onFirst), 7, s},
		{"bucket 3 per s", tokens(3, s, 2), 3, s},
		{"bucket 7 per min", tokens(7, m, 2), 7, m},
		{"bucket 65537 per min", tokens(65_537, m, 2), 65_537, m},
		{"bucket 7 per 10 µs", tokens(7, 10*µs, 2), 7, 10 * µs},
		{"interval bucket", with(tokens(7, s, 7), byInterval), 7, s},
		{"leaky", leaky(3, s, 2, 1), 3, s},
		{"bucket of one every whole µs", tokens(3, s, 1), 1, 333_334},
		{"counter of 6 conservative", with(counter(7, 6*s, 6), conservative), 7, 7 * s},
		{"counter of 60 conservative", with(counter(7, 60*s, 60), conservative), 7, 61 * s},
		{"counter conservative", with(counter(7, s, 1), conservative), 7, 2 * s},
		{"histogram 3", histogram(100, s, 3), 50, s},
		{"histogram 12", histogram(100, s, 12), 100 * 10, 11 * s},
		{"histogram 32", histogram(1000, s, 32), 1000 * 30, 31 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				a := open(t, c.limit)
				start := drawStart(t, c.limit)
				for i := range int64(2000) {
					now := start + (i*c.every+c.units-1)/c.units // i-th of the exact pace, in whole µs
					if d := a.take(now, 1); !d.Allowed {
						t.Fatalf("request %d at %d is denied: %+v", i, now-start, d)
					}
				}
			})
		})
	}
}

func TestInvariant09LogAdmitsAsManyAsCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := log(rapid.Int64Range(1, 4).Draw(t, "quota"), 100)
		a := open(t, l)
		at := []int64{}
		now := origin
		got := 0
		for range rapid.IntRange(1, 10).Draw(t, "requests") {
			now += rapid.Int64Range(0, 120).Draw(t, "gap")
			at = append(at, now)
			if a.take(now, 1).Allowed {
				got++
			}
			if want := mostOf(at, l.Quota, 100); got != want {
				t.Fatalf("of %v got %d admitted, want %d", at, got, want)
			}
		}
	})
}

// mostOf returns the largest number of the requests that keep to quota per window, by trying
// all choices.
func mostOf(at []int64, quota, window int64) (most int) {
	for choice := range 1 << len(at) {
		var book admissions
		n := 0
		for i := range at {
			if choice>>i&1 == 1 {
				book.add(at[i], 1)
				n++
			}
		}
		if n > most && book.most(window) <= quota {
			most = n
		}
	}
	return most
}

func TestInvariant09MoreQuotaAdmitsNoFewer(t *testing.T) {
	// Not where one more unit moves what comes later: the refills at intervals,
	// a histogram's merges, counted denials, the end of an initial state.
	grows := func(l sluice.Limit) bool {
		return testkit.Deficit(l) == 0 && !testkit.Counter(l).PreFilled && testkit.Token(l).Refill == sluice.Continuous && !l.CountDenied && !testkit.Is[sluice.SlidingHistogram](l) &&
			testkit.Token(l).WarmUp == 0 // of which a faster one has more units to warm up by
	}
	eachVariant(t, grows, func(t *rapid.T, l sluice.Limit) {
		larger := l
		larger.Quota++
		if l.Burst > 0 {
			larger.Burst++
		}
		a, b := open(t, l), open(t, larger)
		now := drawStart(t, l)
		var less, more int64
		for _, e := range drawTrace(t, l, 60, sluice.OpTake) {
			now += e.Gap
			less += a.take(now, 1).Spent
			if more += b.take(now, 1).Spent; more < less {
				t.Fatalf("at %d a quota of %d has admitted %d, one of %d only %d", now, l.Quota, less, larger.Quota, more)
			}
		}
	})
}

func TestInvariant10ForgettingTheIdleChangesNothing(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		keeps, forgets := play(open(t, l)), play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40) {
			now += e.Gap
			if it := &forgets.items[0]; it.State.Idle <= now {
				it.State = algo.State{}
			}
			if got, want := forgets.step(now, e), keeps.step(now, e); got != want {
				t.Fatalf("who forgets idle states got %+v, want %+v", got, want)
			}
		}
	})
}

func TestInvariant11ShiftInTime(t *testing.T) {
	fixedLength := func(l sluice.Limit) bool { return testkit.Fixed(l).Calendar == sluice.NoCalendar }
	eachVariant(t, fixedLength, func(t *rapid.T, l sluice.Limit) {
		grid := int64(1)
		switch {
		case testkit.Is[sluice.SlidingCounter](l):
			grid = part(l)
		case testkit.Is[sluice.FixedWindow](l) && !testkit.Fixed(l).OnFirst, testkit.Token(l).Refill == sluice.Aligned:
			grid = window(l)
		}
		shift := rapid.Int64Range(1, 1e9).Draw(t, "shift") * grid
		a, b := play(open(t, l)), play(open(t, l))
		now := drawStart(t, l)
		for _, e := range drawTrace(t, l, 40) {
			now += e.Gap
			got, want := b.step(now+shift, e), a.step(now, e)
			got.At -= sluice.Instant(shift)
			got.Due -= sluice.Instant(shift)
			if got != want {
				t.Fatalf("shifted by %d: got %+v, want %+v", shift, got, want)
			}
		}
	})
}

func TestInvariant13RetryAfterIsSoundAndTight(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p, now := somewhere(t, l)
		cost := drawCost(t, l)
		d := p.take(now, cost)
		if d.Allowed {
			if d.RetryAfter != 0 {
				t.Fatalf("allowed, but %+v", d)
			}
			return
		}
		if d.TooLarge {
			if cost <= l.Full() {
				t.Fatalf("a cost of %d of %d never fits: %+v", cost, l.Full(), d)
			}
			return
		}
		retry := d.RetryAfter.Microseconds()
		if retry <= 0 || cost > l.Full() {
			t.Fatalf("denied a cost of %d of %d: %+v", cost, l.Full(), d)
		}
		if again := p.fork().take(now+retry, cost); !again.Allowed {
			t.Fatalf("%v: denied for %d µs, and then again: %+v", l, retry, again)
		}
		for _, early := range []int64{retry - 1, rapid.Int64Range(0, retry-1).Draw(t, "early")} {
			if p.fork().peek(now+early, cost).Allowed {
				t.Fatalf("%v: denied for %d µs, but allowed after %d", l, retry, early)
			}
		}
	})
}

func TestInvariant14RemainingIsExact(t *testing.T) {
	eachVariant(t, all, func(t *rapid.T, l sluice.Limit) {
		p, now := somewhere(t, l)
		n := p.take(now, rapid.Int64Range(0, 2).Draw(t, "cost")).Remaining
		if got := p.peek(now, 1).Remaining; got != n {
			t.Fatalf("a peek sees %d remaining, the take before saw %d", got, n)
		}
		if n > 0 && !p.fork().take(now, n).Allowed {
			t.Fatalf("%d remain, but a take of all is denied", n)
		}
		if p.fork().take(now, n+1).Allowed {
			t.Fatalf("%d remain, but one more is allowed", n)
		}
		if got := p.fork().upTo(now, sluice.MaxQuota).Spent; got != n {
			t.Fatalf("%d remain, but as many as fit are %d", n, got)
		}
		one := p.fork()
		for i := range min(oneByOne(l, n), 200) {
			if !one.take(now, 1).Allowed {
				t.Fatalf("of %d remaining, %d is denied", n, i+1)
			}
		}
	})
}

// oneByOne returns how many takes of one unit pass if n remain: all, except that with
// next-waits none passes after the first that owes more than Burst, and that a unit of a cold
// key may leave no room for the next.
func oneByOne(l sluice.Limit, n int64) int64 {
	if testkit.Token(l).WarmUp > 0 {
		return min(n, 1)
	}
	if testkit.Token(l).NextWaits && n > 0 {
		return n - l.Debt + 1
	}
	return n
}

// sameIfAlive reports whether nothing has changed, except that an idle state is dropped.
func sameIfAlive(before, after algo.State, now int64) bool {
	if before.Idle <= now {
		return after.Zero() || after.Idle <= now
	}
	before.Reserved = before.Reserved && after.Reserved // over when its time has come
	return equalStates(before, after)
}
