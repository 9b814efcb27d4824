// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/remote"
)

// drawLimit draws a limit of any algorithm, with few units and a short window.
func drawLimit(rnd *rand.Rand) sluice.Limit {
	chance := func(percent int) bool { return rnd.IntN(100) < percent }
	for {
		l := sluice.Limit{
			Quota:  1 + rnd.Int64N(int64([]int{3, 12, 60}[rnd.IntN(3)])),
			Window: time.Duration(1+rnd.IntN(3000)) * 7 * time.Millisecond, CountDenied: chance(10),
		}
		if chance(30) {
			l.Debt = 1 + rnd.Int64N(20)
		}
		switch rnd.IntN(6) {
		case 0:
			l.Burst = rnd.Int64N(30)
			b := sluice.TokenBucket{NextWaits: chance(50), Refill: sluice.Refill(rnd.IntN(3))}
			if chance(30) {
				b.InitialDeficit = rnd.Int64N(l.Burst + 1)
			}
			if chance(20) {
				b.WarmUp = time.Duration(1+rnd.IntN(2000)) * time.Millisecond
			}
			if chance(20) {
				b.Credit, b.CreditFor = 5, time.Hour
			}
			l.Algorithm = b
		case 1:
			l.Burst, l.Algorithm = rnd.Int64N(30), sluice.LeakyBucket{DelayAfter: rnd.Int64N(30)}
		case 2:
			w := sluice.FixedWindow{}
			switch rnd.IntN(4) {
			case 0:
				l.Window, w.Calendar, w.Zone = 0, sluice.Day, "Europe/Berlin"
			case 1:
				w.OnFirst = true
			case 2:
				w.InitialDeficit = rnd.Int64N(l.Quota + 1)
			}
			l.Algorithm = w
		case 3:
			c := sluice.SlidingCounter{SubWindows: []int{0, 1, 7}[rnd.IntN(3)], PreFilled: chance(20)}
			switch rnd.IntN(4) {
			case 0:
				c.Conservative = true
			case 1:
				c.Strict = true
			case 2:
				c.Whole = true
			}
			l.Algorithm = c
		case 4:
			l.Algorithm = sluice.SlidingHistogram{Precision: 3 + rnd.IntN(5)}
		default:
			l.Algorithm = sluice.SlidingLog{}
		}
		if l.Validate() == nil {
			return l.Filled()
		}
	}
}

// admission is a number of units that some node has admitted.
type admission struct {
	at    time.Time
	units int64
}

// greedy runs greedy clients at n nodes whose store is unavailable, for some time, and returns
// their admissions.
func greedy(t *testing.T, rnd *rand.Rand, l sluice.Limit, n int, long time.Duration) (all []admission) {
	t.Helper()
	f := newFaulty()
	f.set(unsent)
	fleet := make([]*remote.Store, n)
	for i := range fleet {
		fleet[i] = wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return n }, Probe: 1e6 * time.Hour})
		defer end(t, f, fleet[i])
	}
	p := testkit.Compile(t, "api", l)
	for over := time.Now().Add(long); time.Now().Before(over); {
		next := time.Hour
		for i, s := range fleet {
			if l.Debt > 0 && rnd.IntN(20) == 0 {
				req := testkit.Request(p, "k", 1+rnd.Int64N(l.Debt))
				req.Op = sluice.OpCharge
				all = append(all, admission{time.Now(), testkit.Take(t, s, req).Spent})
			}
			for {
				d, err := s.Take(t.Context(), testkit.Request(p, "k", 1))
				if err != nil || !d.Degraded || int(d.Nodes) != n {
					t.Fatalf("node %d: %+v, %v", i+1, d, err)
				}
				if !d.Allowed {
					next = min(next, d.RetryAfter)
					break
				}
				all = append(all, admission{time.Now(), 1})
			}
		}
		if rnd.IntN(5) == 0 {
			next = time.Duration(rnd.Int64N(int64(2*next))) + time.Microsecond
		}
		time.Sleep(next.Truncate(time.Microsecond) + time.Microsecond)
	}
	return all
}

// most returns the most units admitted within a window, or a calendar period.
func most(all []admission, l *sluice.Limit, window time.Duration) (most int64) {
	zone, err := time.LoadLocation(testkit.Fixed(*l).Zone)
	if err != nil {
		panic(err)
	}
	within, first := int64(0), 0
	for _, a := range all {
		for within += a.units; ; first++ {
			began := all[first].at
			if testkit.Fixed(*l).Calendar == sluice.NoCalendar && a.at.Sub(began) < window ||
				testkit.Fixed(*l).Calendar != sluice.NoCalendar && a.at.In(zone).YearDay() == began.In(zone).YearDay() {
				break
			}
			within -= all[first].units
		}
		most = max(most, within)
	}
	return most
}

func sum(all []admission) (units int64) {
	for _, a := range all {
		units += a.units
	}
	return units
}

// TestOutageAdmitsNoMore: nodes whose store is unavailable together admit no more than a
// single node, in any window, at once and in the long run.
func TestOutageAdmitsNoMore(t *testing.T) {
	for seed := range testkit.Steps(100, 4000) {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		l, n := drawLimit(rnd), 1+rnd.IntN(8)
		windows := int64(6 * n)
		if testkit.Fixed(l).Calendar != sluice.NoCalendar {
			windows = 3
		}
		var all, one []admission
		long := time.Duration(windows * int64(l.Window))
		synctest.Test(t, func(t *testing.T) { all = greedy(t, rnd, l, n, long) })
		synctest.Test(t, func(t *testing.T) { one = greedy(t, rnd, l, 1, long) })
		few, extra, burst := int64(n), int64(0), l.Quota
		if l.Burst > 0 {
			burst = l.Burst
		}
		if l.Quota < few || burst < few {
			extra = few
		}
		bound := algo.Bound(l, l.Window) + extra
		if testkit.Fixed(l).Calendar != sluice.NoCalendar {
			bound = l.Quota + l.Debt + extra
		}
		if got := most(all, &l, l.Window); got > bound {
			t.Errorf("seed %d: %v at %d nodes: %d units within a window, want at most %d", seed, l, n, got, bound)
		}
		if got, atOnce := most(all, &sluice.Limit{}, time.Nanosecond), max(few, burst)+l.Debt; got > atOnce {
			t.Errorf("seed %d: %v at %d nodes: %d units at once, want at most %d", seed, l, n, got, atOnce)
		}
		// Divisions that round down may halve it, and a strict counter halves it again.
		if got, least := sum(all), sum(one)/4-2*few-l.Debt-burst/4; !l.CountDenied && got < max(least, 1) {
			t.Errorf("seed %d: %v at %d nodes: %d units in all, want at least %d of the %d of one node", seed, l, n, got, least, sum(one))
		}
		if l.Quota < few && testkit.Fixed(l).Calendar == sluice.NoCalendar && l.Burst == 0 && l.Debt == 0 && !l.CountDenied { // the units of the quota
			if got, want := sum(all), l.Quota*windows; got < want*4/5-few || got > want+few {
				t.Errorf("seed %d: %v at %d nodes: %d units in all, want about %d", seed, l, n, got, want)
			}
		}
	}
}

// aboveShare reports whether a cost was refused as above a share.
func aboveShare(err error) bool {
	of, ok := errors.AsType[*sluice.RequestError](err)
	return ok && of.Field == "Cost" && strings.Contains(of.Problem, "is more than the share of one of 3 nodes")
}

// TestCostAboveShare: a cost above a share is refused until the store is back, and a cost above
// the limits is denied.
func TestCostAboveShare(t *testing.T) {
	both(t, func(t *testing.T, f *faulty) {
		s := wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return 3 }})
		defer end(t, f, s)
		bring(t, f, s, unsent)
		p := testkit.Plan(t, "api", "60/min sliding-log", "100/h")
		_, err := s.Take(t.Context(), testkit.Request(p, "k", 21))
		if away, ok := errors.AsType[*remote.UnavailableError](err); !ok || away.RetryAfter == 0 || !aboveShare(err) {
			t.Errorf("above the share: %v", err)
		}
		if _, other := s.Explain(t.Context(), testkit.Request(p, "k", 21)); other == nil || other.Error() != err.Error() {
			t.Errorf("explained: %v", other)
		}
		if d := testkit.Take(t, s, testkit.Request(p, "k", 61)); d.Allowed || !d.TooLarge {
			t.Errorf("above the limit: %+v", d)
		}
		if d := testkit.Take(t, s, testkit.Request(p, "k", 20)); !d.Allowed {
			t.Errorf("the share: %+v", d)
		}
		two := slot(sluice.SlotAcquire, "a")
		two.Cost = 2
		if _, err := s.Slot(t.Context(), two); !aboveShare(err) {
			t.Errorf("slots above the share: %v", err)
		}
		joint := testkit.Request(p, "j", 1)
		joint.Slot = &sluice.Slot{SlotRequest: two}
		if _, err := s.Take(t.Context(), joint); !aboveShare(err) {
			t.Errorf("slots above the share, with units: %v", err)
		}
		f.set(none)
	})
}

// TestSharesAreCharged: units that nodes admitted in an outage are charged to the store on its
// return; then it is as full as a store without an outage.
func TestSharesAreCharged(t *testing.T) {
	for _, text := range []string{"60/min sliding-log", "60/min", "60/min fixed-window", "100/day calendar UTC", "2/min sliding-histogram"} {
		both(t, func(t *testing.T, f *faulty) {
			const nodes = 3
			var fleet [nodes]*remote.Store
			for i := range fleet {
				fleet[i] = wrap(t, f, remote.Options{Policy: sluice.FailLocal, Nodes: func() int { return nodes }})
				defer end(t, f, fleet[i])
			}
			for _, s := range fleet {
				bring(t, f, s, unsent)
			}
			p, admitted := testkit.Plan(t, "api", text), int64(0)
			for _, s := range fleet {
				for testkit.Take(t, s, testkit.Request(p, "k", 1)).Allowed {
					admitted++
				}
			}
			for _, s := range fleet {
				mend(t, f, s)
			}
			charged := uint64(0)
			for began := time.Now(); charged < uint64(admitted) && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
				charged = 0
				for _, s := range fleet {
					charged += s.Stats().Charged
				}
			}
			spent := testkit.Spent(t, f.Store, p, "k")
			if q := p.Term(0).Quota; charged != uint64(admitted) || spent > admitted || spent < min(admitted, q)*9/10 || admitted < q*9/10 || admitted > max(q, nodes) {
				t.Errorf("%s: %d admitted, %d charged, %d are spent", text, admitted, charged, spent)
			}
		})
	}
}
