// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// line runs requests on an evaluator in a bubble.
type line struct {
	t         *testing.T
	evaluator *evaluate.Evaluator
	store     *testkit.Store
	queue     *evaluate.Queue
	start     time.Time

	mu  sync.Mutex
	ran []string // "name at second: verdict"
	all sync.WaitGroup
}

func newLine(t *testing.T, o evaluate.Options, rules ...policy.Rule) *line {
	t.Helper()
	l := &line{t: t, start: time.Now(), queue: evaluate.NewQueue(100), store: &testkit.Store{Store: memstore.New(memstore.Options{})}}
	o.Rules = rules
	if o.Store == nil {
		o.Store = l.store
	}
	if o.Queue == nil {
		o.Queue = l.queue
	}
	if o.OnError == nil {
		o.OnError = func(_ context.Context, _ policy.Attributes, err error) { t.Errorf("reported: %v", err) }
	}
	l.evaluator = newEvaluator(t, o)
	return l
}

// patient returns a rule whose requests of a user may wait.
func patient(maxWait time.Duration, texts ...string) policy.Rule {
	r := one("api", by(policy.Header("X-User")), texts...)
	r.MaxWait = maxWait
	return r
}

// send starts a request and returns a function that ends it, once the request waits or is
// decided.
func (l *line) send(name string, a policy.Attributes) (hangUp func()) {
	return l.sendOn(l.evaluator, name, a)
}

func (l *line) sendOn(f *evaluate.Evaluator, name string, a policy.Attributes) (hangUp func()) {
	ctx, cancel := context.WithCancel(l.t.Context())
	l.all.Go(func() {
		defer cancel()
		var c evaluate.Call
		f.Decide(ctx, a, &c)
		l.mu.Lock()
		l.ran = append(l.ran, name+" "+c.Verdict.String()+" at "+time.Since(l.start).String())
		l.mu.Unlock()
		c.Settle(ctx, policy.Response{Status: 200})
	})
	synctest.Wait()
	return func() {
		cancel()
		synctest.Wait()
	}
}

// check waits until all requests are decided.
func (l *line) check(want ...string) {
	l.t.Helper()
	l.all.Wait()
	if !slices.Equal(l.ran, want) {
		l.t.Errorf("got  %q\nwant %q", l.ran, want)
	}
	if n := l.queue.Stats().Held; n != 0 {
		l.t.Errorf("%d are held at the end", n)
	}
}

// TestThoseBehindALeaverMoveUp: three requests reserve 1, 2 and 3 s and leave at once; the
// next one waits 1 s, and the store keeps units only for it.
func TestThoseBehindALeaverMoveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, evaluate.Options{MaxWait: 10 * time.Second}, one("api", nil, "1/s burst 1"))
		l.send("first", user("ada"))
		var ends []func()
		for _, name := range []string{"a", "b", "c"} {
			ends = append(ends, l.send(name, user("ada")))
		}
		stays := user("ada")
		l.send("d", stays) // reserved 4 s
		for _, hangUp := range ends {
			hangUp()
		}
		if got := l.queue.Stats().Held; got != 1 {
			t.Errorf("%d are held, want 1: places are free at once", got)
		}
		asked := l.store.Calls()
		l.send("e", user("ada"))
		if l.store.Calls() != asked {
			t.Error("the store was asked for an instant though one was free")
		}
		l.check("first allowed at 0s", "a abandoned at 0s", "b abandoned at 0s", "c abandoned at 0s", "d delayed at 1s", "e delayed at 2s")
		if n := l.store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds before the instants that are left are due, want none", n)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := l.store.Asked(sluice.OpRefund); n != 2 {
			t.Errorf("%d refunds once they are due, want 2", n)
		}
		l.send("f", user("ada")) // at 4 s: nothing is owed
		l.send("g", user("ada"))
		l.check("first allowed at 0s", "a abandoned at 0s", "b abandoned at 0s", "c abandoned at 0s", "d delayed at 1s", "e delayed at 2s",
			"f allowed at 4s", "g delayed at 5s")
	})
}

// TestMaxWaitOfARule: MaxWait delays requests under every algorithm, at most by its value, and
// the least of several rules applies.
func TestMaxWaitOfARule(t *testing.T) {
	for _, c := range []struct {
		name  string
		rules []policy.Rule
		want  []string
	}{
		{"a bucket", []policy.Rule{patient(2*time.Second, "1/s burst 1")}, []string{"a allowed at 0s", "d denied at 0s", "b delayed at 1s", "c delayed at 2s"}},
		{"a queue, whose burst says how deep", []policy.Rule{patient(2*time.Second, "1/s burst 2 leaky-bucket")}, []string{"a allowed at 0s", "c denied at 0s", "d denied at 0s", "b delayed at 1s"}},
		{"a queue beside a bucket", []policy.Rule{patient(2*time.Second, "q: 1/s burst 3 leaky-bucket", "b: 100/s")}, []string{"a allowed at 0s", "d denied at 0s", "b delayed at 1s", "c delayed at 2s"}},
		{
			"the least of two",
			[]policy.Rule{patient(time.Second, "1/s burst 1"), {Name: "all", MaxWait: time.Minute, Levels: []policy.Level{{Limits: limits("9/s")}}}},
			[]string{"a allowed at 0s", "c denied at 0s", "d denied at 0s", "b delayed at 1s"},
		},
		{
			"beside a rule without",
			[]policy.Rule{patient(2*time.Second, "9/s"), {Name: "all", Levels: []policy.Level{{Limits: limits("1/s burst 1")}}}},
			[]string{"a allowed at 0s", "d denied at 0s", "b delayed at 1s", "c delayed at 2s"},
		},
		{"in shadow nothing waits", []policy.Rule{shadow(patient(time.Second, "1/s burst 1"))}, []string{"a allowed at 0s", "b allowed at 0s", "c allowed at 0s", "d allowed at 0s"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLine(t, evaluate.Options{}, c.rules...)
				for _, name := range []string{"a", "b", "c", "d"} {
					l.send(name, user("ada"))
				}
				l.check(c.want...)
			})
		})
	}
}

func shadow(r policy.Rule) policy.Rule {
	r.Shadow = true
	return r
}

// TestPatience: a request that may not wait until the free instant is denied, and leaves the
// instant to the next.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, evaluate.Options{MaxWait: 10 * time.Second}, one("api", nil, "1/s burst 1"))
		l.send("a", user("ada"))
		l.send("b", user("ada"))()
		short, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		var c evaluate.Call
		l.evaluator.Decide(short, user("ada"), &c)
		if c.Verdict != evaluate.Denied || c.Decision.RetryAfter == 0 {
			t.Errorf("%v, retry after %v; want denied", c.Verdict, c.Decision.RetryAfter)
		}
		l.send("c", user("ada"))
		l.check("a allowed at 0s", "b abandoned at 0s", "c delayed at 1s")
	})
}

// TestAnotherCost: a request of another cost, or under more rules, gives back free instants
// before it calls the store. It waits as long as if the others had not come.
func TestAnotherCost(t *testing.T) {
	priced := patient(time.Minute, "1/s burst 3")
	priced.Cost = policy.Cost{Of: policy.RequestHeader, Header: "X-Cost", Most: 3}
	costing := func(n string) policy.Attributes {
		a := userRequest("ada")
		a.Headers["X-Cost"] = []string{n}
		return a.Attributes()
	}
	synctest.Test(t, func(t *testing.T) {
		l := newLine(t, evaluate.Options{}, priced)
		l.send("all", costing("3"))
		leaves := l.send("one", costing("1"))
		l.send("stays", costing("2")) // at 3 s
		leaves()
		l.send("like the one that left", costing("1"))
		l.check("all allowed at 0s", "one abandoned at 0s", "like the one that left delayed at 1s", "stays delayed at 3s")
		for range 3 {
			l.send("", costing("3"))() // at 6 s
		}
		l.ran = nil
		l.send("two", costing("2")) // what the others have left is given back: at 5 s, as if they had not come
		l.check("two delayed at 5s")
		if refunds := l.store.Asked(sluice.OpRefund); refunds != 1 {
			t.Errorf("%d refunds, want 1: the three have left one instant", refunds)
		}
	})
}

// TestReceiptOfAnInstant: a request that has moved up settles its charge at the instant that
// it took over.
func TestReceiptOfAnInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := patient(time.Minute, "1/10s sliding-log")
		r.When = &policy.When{Status: []policy.Status{{From: 500, To: 599}}, ChargeFirst: true} // so a 200 gives units back
		l := newLine(t, evaluate.Options{}, r)
		var back []time.Duration // the instants given back
		l.store.Before = func(_ context.Context, req sluice.Request) error {
			l.mu.Lock()
			defer l.mu.Unlock()
			if req.Op == sluice.OpRefund {
				back = append(back, req.At.Time().Sub(l.start))
			}
			return nil
		}
		var c evaluate.Call
		l.evaluator.Decide(t.Context(), user("ada"), &c)
		c.Settle(t.Context(), policy.Response{Status: 500})
		leaves := l.send("a", user("ada")) // at 10 s
		l.send("b", user("ada"))           // at 20 s
		leaves()
		l.check("a abandoned at 0s", "b delayed at 10s")
		check := func(want ...time.Duration) {
			t.Helper()
			l.mu.Lock()
			defer l.mu.Unlock()
			if !slices.Equal(back, want) {
				t.Errorf("units of %v have been given back, want of %v", back, want)
			}
		}
		check(10 * time.Second)
		time.Sleep(10 * time.Second) // what a has left is due
		synctest.Wait()
		check(10*time.Second, 20*time.Second)
	})
}

// TestFullQueue: a request that finds no place takes none, and one that leaves frees its place
// at once, also in the middle of a queue.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := evaluate.NewQueue(2)
		l := newLine(t, evaluate.Options{MaxWait: time.Minute, Queue: q}, one("api", nil, "1/s burst 1"))
		l.queue = q
		l.send("a", user("ada"))
		leaves := l.send("b", user("ada"))
		l.send("c", user("ada"))
		l.send("d", user("ada"))
		leaves()
		l.send("e", user("ada"))
		l.send("f", user("ada"))
		l.check("a allowed at 0s", "d failed-closed at 0s", "b abandoned at 0s", "f failed-closed at 0s", "c delayed at 1s", "e delayed at 2s")
		q.Resize(0, 0) // one place
		l.send("g", user("ada"))
		l.check("a allowed at 0s", "d failed-closed at 0s", "b abandoned at 0s", "f failed-closed at 0s", "c delayed at 1s", "e delayed at 2s", "g delayed at 3s")
	})
}

// TestPanicWhileHeldBack: a request that panics keeps nothing, and its instant goes to the
// next request.
func TestPanicWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := false
		l := newLine(t, evaluate.Options{MaxWait: time.Minute, OnDelay: func(ctx context.Context, _ policy.Attributes) (context.Context, func()) {
			if fails {
				panic("of the hook")
			}
			return ctx, func() {}
		}}, one("api", nil, "1/s burst 1"))
		l.send("a", user("ada"))
		fails = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			l.evaluator.Decide(t.Context(), user("ada"), &evaluate.Call{})
		}()
		fails = false
		l.send("b", user("ada"))
		l.check("a allowed at 0s", "b delayed at 1s")
	})
}

// TestTwoEvaluators: evaluators that share a queue and a store share free instants, even if
// each has compiled the rules itself; evaluators of two stores do not.
func TestTwoEvaluators(t *testing.T) {
	for _, c := range []struct {
		name   string
		shared bool
		want   string
	}{{"one store", true, "b delayed at 1s"}, {"two stores", false, "b allowed at 0s"}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rules := []policy.Rule{one("api", nil, "1/s burst 1")}
				l := newLine(t, evaluate.Options{MaxWait: time.Minute}, rules...)
				store := sluice.Store(l.store)
				if !c.shared {
					store = uncomparable{memstore.New(memstore.Options{}), nil}
				}
				other := newEvaluator(t, evaluate.Options{Store: store, Rules: rules, Queue: l.queue, MaxWait: time.Minute})
				l.send("first", user("ada"))
				l.send("a", user("ada"))()
				asked := l.store.Asked(sluice.OpReserve)
				l.sendOn(other, "b", user("ada"))
				l.check("first allowed at 0s", "a abandoned at 0s", c.want)
				if got := l.store.Asked(sluice.OpReserve); got != asked {
					t.Errorf("the store was asked for %d more instants", got-asked)
				}
			})
		})
	}
}

// uncomparable is a store that cannot be compared.
type uncomparable struct {
	sluice.Store
	_ []int
}

// TestOneThatAnotherRuleDenies: a denied request leaves its claimed instant to the next.
func TestOneThatAnotherRuleDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := one("failures", by(policy.Header("X-User")), "1/min")
		failures.When = &policy.When{Status: []policy.Status{{From: 200, To: 299}}}
		l := newLine(t, evaluate.Options{}, failures, policy.Rule{Name: "all", MaxWait: time.Minute, Levels: []policy.Level{{Limits: limits("1/s burst 1")}}})
		l.send("a", user("ada"))
		l.send("b", user("bob"))()
		l.send("c", user("ada")) // its failures are all spent
		l.send("d", user("eve"))
		l.check("a allowed at 0s", "b abandoned at 0s", "c denied at 0s", "d delayed at 1s")
	})
}

// TestSlotsOfThoseWhoWait: a request that may wait takes its slot first, and releases it when
// it leaves.
func TestSlotsOfThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := patient(time.Minute, "1/s burst 1")
		r.Levels[0].InFlight = &sluice.SlotLimit{Cap: 1}
		store := memstore.New(memstore.Options{})
		l := newLine(t, evaluate.Options{Store: store}, r)
		l.send("a", user("ada"))
		leaves := l.send("b", user("ada"))
		l.send("c", user("ada"))
		leaves()
		l.send("d", user("ada"))
		l.check("a allowed at 0s", "c denied at 0s", "b abandoned at 0s", "d delayed at 1s")
	})
}

// TestWhatIsNotChargedIsNotGivenBack: a rule that counts responses may delay a request that it
// has not charged. When that request leaves, it gives nothing back, and no request proceeds
// earlier.
func TestWhatIsNotChargedIsNotGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := one("failures", by(policy.Header("X-User")), "1/s burst 9 leaky-bucket")
		r.When = &policy.When{Status: []policy.Status{{From: 200, To: 200}}}
		l := newLine(t, evaluate.Options{}, r)
		for _, name := range []string{"a", "b"} {
			l.send(name, user("ada"))
		}
		leaves := l.send("c", user("ada"))
		l.send("d", user("ada"))
		leaves()
		l.send("e", user("ada"))
		l.all.Wait()
		slices.Sort(l.ran) // three proceed at once
		l.check("a allowed at 0s", "b delayed at 1s", "c abandoned at 0s", "d delayed at 1s", "e delayed at 1s")
		if n := l.store.Asked(sluice.OpRefund); n != 0 {
			t.Errorf("%d refunds, want none", n)
		}
	})
}
