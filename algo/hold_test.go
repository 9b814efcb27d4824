// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
)

// holder is an account of a store that keeps holds. Its instants are seconds from origin.
type holder struct {
	*account
	// parts says that the store gives only the holds that a request needs.
	parts bool
	kept  []*algo.Holds // all holds, with parts
}

func holds(t testing.TB, limits ...string) *holder {
	t.Helper()
	var list []sluice.Limit
	for _, text := range limits {
		list = append(list, sluice.MustParseLimit(text))
	}
	k := &holder{account: open(t, list...)}
	for i := range k.items {
		k.items[i].Holds = &algo.Holds{All: true, List: map[string]algo.Hold{}}
		k.kept = append(k.kept, k.items[i].Holds)
	}
	return k
}

func (k *holder) ask(now int64, req sluice.Request) sluice.Decision {
	k.t.Helper()
	at := origin + now*s
	for i := range k.items {
		it := &k.items[i]
		it.Term = k.plan.Term(i)
		it.Holds.Lost = !slices.ContainsFunc(it.Keep(nil), func(s algo.State) bool { return s.Idle > at })
		if !k.parts {
			continue
		}
		numbers := *it.Holds
		part := &numbers
		part.List = map[string]algo.Hold{}
		whole := part.Whole(&req, at)
		for id, e := range k.kept[i].List {
			if whole || req.Hold != nil && req.Hold.ID == id {
				part.List[id] = e
			}
		}
		it.Holds = part
	}
	d := k.do(at, req)
	for i := range k.items {
		h := k.items[i].Holds
		if k.parts {
			for _, id := range h.Changed {
				if e, ok := h.List[id]; ok {
					k.kept[i].List[id] = e
				} else {
					delete(k.kept[i].List, id)
				}
			}
		}
		h.Changed = nil
	}
	return d
}

func (k *holder) take(now, cost int64) sluice.Decision {
	k.t.Helper()
	return k.ask(now, sluice.Request{Charge: sluice.Charge{Cost: cost}})
}

func (k *holder) left(now int64) int64 {
	k.t.Helper()
	return k.ask(now, sluice.Request{Op: sluice.OpPeek}).Remaining
}

func hold(id string, cost, ttl int64) sluice.Request {
	return sluice.Request{Charge: sluice.Charge{Cost: cost}, Hold: &sluice.Hold{ID: id, TTL: time.Duration(ttl) * time.Second}}
}

func (k *holder) hold(now int64, id string, cost, ttl int64) sluice.Decision {
	k.t.Helper()
	return k.ask(now, hold(id, cost, ttl))
}

func (k *holder) settle(now int64, id string, actual int64, retry bool) sluice.Decision {
	k.t.Helper()
	return k.ask(now, sluice.Request{Op: sluice.OpSettle, Charge: sluice.Charge{Cost: actual}, Hold: &sluice.Hold{ID: id, Retry: retry}})
}

func (k *holder) extend(now int64, id string, ttl int64) sluice.Decision {
	k.t.Helper()
	return k.ask(now, sluice.Request{Op: sluice.OpExtend, Hold: &sluice.Hold{ID: id, TTL: time.Duration(ttl) * time.Second}})
}

// wantLeft fails the test unless that many units are left.
func (k *holder) wantLeft(now, want int64) {
	k.t.Helper()
	if got := k.left(now); got != want {
		k.t.Errorf("%d s: %d units are left, want %d", now, got, want)
	}
}

func wantHold(t testing.TB, d sluice.Decision, allowed bool, state sluice.HoldState, spent int64) {
	t.Helper()
	if d.Allowed != allowed || d.Hold != state || d.Spent != spent || d.At != 0 {
		t.Errorf("got %+v, want allowed %t, hold %d, spent %d and no receipt", d, allowed, state, spent)
	}
}

const oneWindow = "4/100s fixed-window debt 20"

// TestHoldCounterexamples: the shortest traces that break simpler rules.
// docs/adr/0072-holds.md describes each by its letter.
func TestHoldCounterexamples(t *testing.T) {
	t.Run("a: the last hold of a key ends", func(t *testing.T) {
		k := holds(t, oneWindow)
		wantHold(t, k.hold(0, "b", 3, 2), true, sluice.HoldOpen, 3)
		if d := k.take(3, 1); !d.Allowed || d.Remaining != 3 {
			t.Errorf("got %+v, want 3 left", d)
		}
	})
	t.Run("b: a late settle is charged once", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 3, 2)
		wantHold(t, k.settle(3, "b", 4, false), true, sluice.HoldExpired, 4)
		wantHold(t, k.settle(3, "b", 4, true), true, sluice.HoldSettled, 4)
		k.wantLeft(3, 0)
	})
	t.Run("c: a settle is repeated behind the end", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 3, 2)
		k.settle(1, "b", 3, false)
		wantHold(t, k.settle(3, "b", 3, true), true, sluice.HoldSettled, 3)
		k.wantLeft(3, 1)
	})
	t.Run("d: a forgotten id is not charged again", func(t *testing.T) {
		k := holds(t, "100000/day fixed-window")
		for i := range 4000 {
			k.hold(0, fmt.Sprint(i), 1, 1)
			k.settle(0, fmt.Sprint(i), 1, false)
		}
		wantHold(t, k.settle(0, "0", 1, true), true, sluice.HoldUnknown, 0)
		wantHold(t, k.settle(0, "3999", 1, true), true, sluice.HoldSettled, 1)
		wantHold(t, k.settle(0, "2977", 1, true), true, sluice.HoldSettled, 1)
		k.wantLeft(0, 96000)
		if n := k.items[0].Holds.Dropped; n == 0 {
			t.Error("no hold is counted as dropped")
		}
	})
	t.Run("e: no receipt", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 3, 50)
		refund := sluice.Request{Op: sluice.OpRefund, Charge: k.charged(3), At: k.hold(1, "b", 3, 50).At}
		if err := refund.Validate(); err == nil {
			t.Error("a refund of the decision is valid")
		}
	})
	t.Run("f: a reset settles", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 3, 50)
		k.ask(1, sluice.Request{Op: sluice.OpReset})
		k.hold(1, "a", 3, 50)
		wantHold(t, k.settle(1, "b", 2, false), true, sluice.HoldSettled, 0)
		k.wantLeft(1, 1)
		k.settle(2, "b", 9, false)
		k.wantLeft(2, 1)
	})
	t.Run("g: a hold ends at its own end", func(t *testing.T) {
		k := holds(t, "4/12s")
		k.hold(4, "c", 3, 5)
		k.take(6, 1)
		if d := k.take(10, 4); d.Allowed || d.RetryAfter != 2*time.Second {
			t.Errorf("got %+v, want that it fits in 2 s", d)
		}
	})
	t.Run("h: all holds end at once", func(t *testing.T) {
		k := holds(t, "1024/day fixed-window")
		for i := range 1024 {
			k.hold(0, fmt.Sprint(i), 1, 1)
		}
		if d := k.take(2, 1024); !d.Allowed {
			t.Errorf("got %+v, want that all have ended", d)
		}
	})
	t.Run("i: each at its own end", func(t *testing.T) {
		k := holds(t, "3/9s")
		k.hold(0, "b", 1, 5)
		k.hold(3, "a", 3, 2)
		k.hold(6, "b", 3, 5)
		if d := k.take(7, 3); d.Allowed {
			t.Errorf("got %+v, above the bound", d)
		}
	})
	t.Run("j: an overdue hold does not live again", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 1, 5)
		k.hold(4, "a", 3, 2)
		if d := k.extend(7, "a", 5); d.Allowed || d.Hold != sluice.HoldExpired {
			t.Errorf("got %+v, want that it is over", d)
		}
		k.wantLeft(7, 4)
	})
	t.Run("k: a peek sees what is over", func(t *testing.T) {
		k := holds(t, oneWindow)
		k.hold(0, "b", 3, 2)
		k.wantLeft(3, 4)
	})
	t.Run("l: a denied hold leaves nothing", func(t *testing.T) {
		k := holds(t, oneWindow, "2/100s sliding-log")
		wantHold(t, k.hold(0, "b", 3, 50), false, 0, 0)
		wantHold(t, k.hold(0, "b", 2, 50), true, sluice.HoldOpen, 2)
		k.wantLeft(0, 0)
	})
	t.Run("m: too many holds", func(t *testing.T) {
		k := holds(t, "2000/10s fixed-window")
		for i := range 1024 {
			k.hold(0, fmt.Sprint(i), 1, 1000+int64(i))
		}
		if d := k.hold(20, "b", 1, 1000); d.Allowed || d.Hold != sluice.HoldsFull || d.RetryAfter != 980*time.Second {
			t.Errorf("got %+v, want that there are too many holds until the first ends", d)
		}
		if d := k.take(20, 2000); !d.Allowed {
			t.Errorf("got %+v, want that plain takes go on", d)
		}
		k.settle(21, "0", 1, false)
		wantHold(t, k.hold(40, "b", 1, 1000), true, sluice.HoldOpen, 1)
	})
	t.Run("n: a busy bucket keeps the estimate", func(t *testing.T) { // stated, docs/configuration.md
		k := holds(t, "20/20s")
		k.hold(0, "b", 10, 100)
		for now := range int64(30) {
			k.take(now, k.left(now))
		}
		k.settle(30, "b", 0, false)
		k.wantLeft(30, 1)
	})
}

// TestHoldOfAnotherForm: a state that began after the units of a hold had left all others counts
// none of them, so it gives none back.
func TestHoldOfAnotherForm(t *testing.T) {
	for _, c := range []struct {
		then string
		left int64
	}{{"x: 60/10s fixed-window", 45}, {"x: 40/10s fixed-window", 25}, {"x: 40/20s fixed-window", 25}, {"x: 40/20s sliding-log", 25}} {
		k := holds(t, "x: 60/10s fixed-window")
		k.hold(3, "b", 9, 50)
		k.take(11, 5)
		k.change(sluice.MustParseLimit(c.then))
		k.take(13, 10)
		k.settle(15, "b", 0, false)
		k.wantLeft(15, c.left)
	}
}

func (a *account) charged(n int64) sluice.Charge { return sluice.Charge{Plan: a.plan, Cost: n} }

// TestHoldRetries: the result of a repeated request.
func TestHoldRetries(t *testing.T) {
	k := holds(t, oneWindow, "9/100s sliding-log debt 20")
	wantHold(t, k.hold(0, "b", 3, 10), true, sluice.HoldOpen, 3)
	wantHold(t, k.hold(1, "b", 3, 10), true, sluice.HoldOpen, 3)
	if d := k.hold(1, "b", 2, 10); d.Allowed || d.Hold != sluice.HoldDiffers {
		t.Errorf("another cost: got %+v", d)
	}
	wantHold(t, k.settle(2, "b", 2, false), true, sluice.HoldSettled, 2)
	wantHold(t, k.settle(2, "b", 4, false), true, sluice.HoldSettled, 2)
	wantHold(t, k.hold(3, "b", 3, 10), true, sluice.HoldSettled, 3)
	k.wantLeft(3, 2)
	wantHold(t, k.settle(4, "late", 0, false), true, sluice.HoldExpired, 0)
	wantHold(t, k.hold(5, "late", 2, 10), true, sluice.HoldSettled, 2) // it comes after its cancel
	k.wantLeft(5, 2)
	wantHold(t, k.settle(5, "more", 1, true), true, sluice.HoldUnknown, 0)
	wantHold(t, k.settle(5, "more", 1, false), true, sluice.HoldExpired, 1)
	k.wantLeft(5, 1)
	done := hold("done", 1, 10)
	done.Hold.Settled = true
	wantHold(t, k.ask(6, done), true, sluice.HoldSettled, 1)
	wantHold(t, k.ask(60, done), true, sluice.HoldSettled, 1)
	k.wantLeft(60, 0)
	wantHold(t, k.ask(67, done), false, 0, 0) // forgotten
}

// TestHoldAdd: units that were given without a receipt are not given back once more.
func TestHoldAdd(t *testing.T) {
	k := holds(t, oneWindow)
	k.hold(0, "b", 3, 50)
	k.ask(1, sluice.Request{Op: sluice.OpAdd, Charge: sluice.Charge{Cost: 3}})
	k.take(1, 4)
	k.settle(2, "b", 0, false)
	k.wantLeft(2, 0)
}

// TestHoldClockBack: a clock that steps back neither keeps holds open nor gives units back.
func TestHoldClockBack(t *testing.T) {
	k := holds(t, "4/2000s sliding-log")
	k.hold(1000, "b", 3, 10)
	if d := k.extend(0, "b", 10); !d.Allowed {
		t.Fatalf("got %+v", d)
	}
	wantHold(t, k.settle(11, "b", 3, false), true, sluice.HoldExpired, 1)
}

var heldLimits = [][]string{
	{"4/10s fixed-window debt 6"},
	{"4/10s fixed-window anchor first debt 6"},
	{"4/10s sliding-log debt 6"},
	{"40/10s sliding-histogram precision 3 debt 60"},
	{"4/10s sliding-counter debt 6"},
	{"4/10s sliding-counter sub-windows 5 debt 6"},
	{"4/10s sliding-counter sub-windows 5 whole"},
	{"4/12s debt 6"},
	{"4/4s"},
	{"4/8s burst 6 interval-refill debt 4"},
	{"4/8s leaky-bucket burst 4 debt 4"},
	{"4/10s burst 6 warm-up 3s debt 6"},
	{"4/10s burst 4 credit 5 credit-for 20s"},
	{"4/10s burst 4 debt 9 next-waits"},
	{"4/12s debt 6", "6/20s fixed-window debt 6"},
	{"5/10s sliding-log debt 6", "a: 4/20s sliding-counter debt 6", "3/5s block 4s"},
}

// drawHeld sends a random request to all holders, and returns their decisions.
func drawHeld(r *rand.Rand, ks []*holder, now int64) (req sluice.Request, got []sluice.Decision) {
	id := string(rune('a' + r.IntN(6)))
	req.Cost = r.Int64N(5)
	ttl := time.Duration(1+r.Int64N(20)) * time.Second
	switch n := r.IntN(16); {
	case n < 3:
	case n < 7:
		req.Hold = &sluice.Hold{ID: id, TTL: ttl, Settled: r.IntN(8) == 0}
	case n < 11:
		req.Op, req.Hold = sluice.OpSettle, &sluice.Hold{ID: id, Retry: r.IntN(3) == 0}
	case n < 12:
		req.Op, req.Hold = sluice.OpExtend, &sluice.Hold{ID: id, TTL: ttl}
	case n < 13:
		req.Op, req.Cost = sluice.OpPeek, 0
	case n < 14:
		req.Op = sluice.OpCharge
	case n < 15:
		req.Op, req.MaxWait = sluice.OpReserve, 5*time.Second
	default:
		switch r.IntN(6) {
		case 0:
			req.Op = sluice.OpReset
		case 1:
			req.Op = sluice.OpAdd
		default:
			req.Op = sluice.OpTakeUpTo
		}
	}
	for _, k := range ks {
		got = append(got, k.ask(now, req))
	}
	return req, got
}

// TestHoldsEqualIdeal: a key of which holds are ended by the next request equals one of which
// each hold is ended at its own instant, in all decisions and states. A store that gives only
// the holds that a request needs decides the same.
func TestHoldsEqualIdeal(t *testing.T) {
	for n, limits := range heldLimits {
		t.Run(fmt.Sprint(limits), func(t *testing.T) {
			for seed := range uint64(testkit.Steps(150, 4000)) {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				lazy, ideal, part := holds(t, limits...), holds(t, limits...), holds(t, limits...)
				part.parts = true
				var trail []string
				for now, last := int64(0), int64(0); len(trail) < 30; now += r.Int64N(4) * r.Int64N(3) {
					for ; last < now; last++ {
						ideal.left(last)
					}
					last = now
					req, d := drawHeld(r, []*holder{lazy, ideal, part}, now)
					trail = append(trail, fmt.Sprintf("%d %v %d %+v: %+v", now, req.Op, req.Cost, req.Hold, d[0]))
					if d[0] != d[1] || d[0] != d[2] {
						t.Fatalf("seed %d: got\n%+v, want\n%+v, in parts\n%+v, after %s", seed, d[0], d[1], d[2], trail)
					}
				}
			}
		})
	}
}

// spending is units that count at an instant.
type spending struct{ at, units int64 }

// known is a hold by the rules of docs/adr/0072-holds.md.
type known struct {
	state                 sluice.HoldState
	cost, ttl, end, until int64
	first, more           spending // those held, and those that it lacked
}

// ledger records the units that holds have really used, without package algo.
type ledger struct {
	ids   map[string]*known
	taken []spending
}

const memory = 60 // s, at least

// expire ends the holds that are over, and forgets those that are not remembered.
func (l *ledger) expire(now int64) {
	for id, k := range l.ids {
		if k.state == sluice.HoldOpen && k.end <= now {
			k.state, k.first.units, k.until = sluice.HoldExpired, 0, k.end+max(k.ttl, memory)
		}
		if k.state != sluice.HoldOpen && k.until <= now {
			l.taken = append(l.taken, k.first, k.more)
			delete(l.ids, id)
		}
	}
}

// spendings returns all units that count, in the order of their instants.
func (l *ledger) spendings() []spending {
	all := slices.Clone(l.taken)
	for _, k := range l.ids {
		all = append(all, k.first, k.more)
	}
	all = slices.DeleteFunc(all, func(s spending) bool { return s.units == 0 })
	slices.SortFunc(all, func(a, b spending) int { return int(a.at - b.at) })
	return all
}

// note records a request and its decision, and fails the test if the rules require another.
func (l *ledger) note(t *testing.T, now int64, req sluice.Request, d sluice.Decision, trail []string) {
	t.Helper()
	l.expire(now)
	spent := spending{now, d.Spent}
	if req.Hold == nil {
		l.taken = append(l.taken, spent)
		return
	}
	id, ttl := req.Hold.ID, int64(req.Hold.TTL/time.Second)
	k := l.ids[id]
	want := sluice.HoldState(0)
	switch req.Op {
	case sluice.OpTake:
		switch {
		case k != nil && k.state != sluice.HoldExpired && (k.cost < 0 || k.cost == req.Cost):
			want = k.state
		case k != nil && k.state != sluice.HoldExpired:
			want = sluice.HoldDiffers
		case d.Allowed:
			k := &known{state: sluice.HoldOpen, cost: req.Cost, ttl: ttl, end: now + ttl, first: spent}
			if req.Hold.Settled {
				k.state, k.until = sluice.HoldSettled, now+max(ttl, memory)
			}
			if was := l.ids[id]; was != nil {
				l.taken = append(l.taken, was.first, was.more)
			}
			l.ids[id], want = k, k.state
		}
	case sluice.OpSettle:
		switch {
		case k != nil && k.state == sluice.HoldOpen:
			want, k.state, k.until = sluice.HoldSettled, sluice.HoldSettled, max(k.end, now+max(k.ttl, memory))
			if k.first.units = min(k.cost, req.Cost); d.Spent > k.cost {
				k.more = spending{now, d.Spent - k.cost}
			}
		case k != nil && k.state == sluice.HoldSettled:
			want = sluice.HoldSettled
		case k == nil && req.Hold.Retry:
			want = sluice.HoldUnknown
		default:
			want = sluice.HoldExpired
			if k == nil {
				k = &known{cost: -1}
				l.ids[id] = k
			}
			l.taken = append(l.taken, k.first, k.more)
			k.state, k.first, k.more, k.until = sluice.HoldSettled, spent, spending{}, now+max(k.ttl, memory)
		}
	case sluice.OpExtend:
		if want = sluice.HoldUnknown; k != nil {
			want = k.state
		}
		if want == sluice.HoldOpen {
			k.end, k.ttl = max(k.end, now+ttl), max(k.ttl, ttl)
		}
	}
	if d.Hold != want {
		t.Fatalf("%d s: %v %+v of %d: got hold %d, want %d, after\n%s", now, req.Op, *req.Hold, req.Cost, d.Hold, want, strings.Join(trail, "\n"))
	}
}

// TestHoldsSpendWhatIsUsed: a key with holds counts no fewer units than if only the units that
// were really used had been spent, each at its instant; windows, logs and counters count no more.
// No window has more than its bound. No RetryAfter is too short.
func TestHoldsSpendWhatIsUsed(t *testing.T) {
	for n, limits := range heldLimits {
		if len(limits) > 1 {
			continue
		}
		t.Run(limits[0], func(t *testing.T) {
			expired, settled, lacked := 0, 0, 0
			for seed := range uint64(testkit.Steps(200, 5000)) {
				r := rand.New(rand.NewPCG(seed, uint64(n)))
				k := holds(t, limits...)
				l := &ledger{ids: map[string]*known{}}
				limit := k.plan.Term(0).Limit
				var trail []string
				for now := int64(0); len(trail) < 40; now += r.Int64N(4) * r.Int64N(4) {
					req, got := drawHeld(r, nil, now)
					for req.Op == sluice.OpReset || req.Op == sluice.OpAdd || req.Op == sluice.OpReserve {
						req, got = drawHeld(r, nil, now)
					}
					d := k.ask(now, req)
					_ = got
					trail = append(trail, fmt.Sprintf("%d %v %d %+v: %+v", now, req.Op, req.Cost, req.Hold, d))
					l.note(t, now, req, d, trail)
					switch d.Hold {
					case sluice.HoldExpired:
						expired++
					case sluice.HoldSettled:
						settled++
					}
					k.checkUsed(t, l, now, seed, trail, &lacked)
					all := l.spendings()
					for i := range all {
						var sum int64
						for _, s := range all[i:] {
							if s.at-all[i].at <= int64(limit.Window/time.Second)-1 {
								sum += s.units
							}
						}
						if most := algo.Bound(limit, limit.Window); sum > most {
							t.Fatalf("seed %d: %d units in a window, bound %d, after %s", seed, sum, most, trail)
						}
					}
				}
			}
			if expired < 50 || settled < 50 {
				t.Errorf("%d holds have expired, %d were settled: the test is too weak", expired, settled)
			}
			t.Logf("%d expired, %d settled; %d times fewer units were left than if only those used had been spent", expired, settled, lacked)
		})
	}
}

// checkUsed compares the key with one that has only spent the units of the ledger.
func (k *holder) checkUsed(t *testing.T, l *ledger, now int64, seed uint64, trail []string, lacked *int) {
	t.Helper()
	limit := k.plan.Term(0).Limit
	bucket, _ := limit.Algorithm.(sluice.TokenBucket)
	if f, ok := limit.Algorithm.(sluice.FixedWindow); ok && f.OnFirst || bucket.Refill != sluice.Continuous || bucket.WarmUp > 0 {
		return // units that were given back have opened a window or an interval, or warmed the limit up
	}
	ideal := holds(t, k.plan.Term(0).String())
	for _, s := range l.spendings() {
		if d := ideal.ask(s.at, sluice.Request{Op: sluice.OpCharge, Charge: sluice.Charge{Cost: s.units}}); d.Spent != s.units {
			t.Fatalf("seed %d: %d of %d units are recorded at %d s, after %s", seed, d.Spent, s.units, s.at, trail)
		}
	}
	got, most := k.left(now), ideal.left(now)
	if got > most {
		t.Fatalf("seed %d: %d s: %d units are left, but %d if only those used %v had been spent, after %s", seed, now, got, most, l.spendings(), trail)
	}
	if got < most {
		*lacked++
		if k.plan.Term(0).Burst == 0 && k.plan.Term(0).Debt == 0 && limit.Algorithm != (sluice.SlidingHistogram{Precision: 3}) {
			t.Fatalf("seed %d: %d s: %d units are left, want %d, after %s", seed, now, got, most, trail)
		}
	}
}
