// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package memstore_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/memstore"
)

// limits has one or more limits of every form of state.
var limits = []struct{ name, text string }{
	{"word", "100/min"},
	{"word with remainder", "7/min burst 3"},
	{"word deficit", "10/min initial 2"},
	{"word in debt", "10/s debt 20"},
	{"queue", "10/s burst 5 leaky-bucket"},
	{"meter", "10/s burst 5 leaky-bucket nodelay"},
	{"pair of a large quota", "1000003/min"},
	{"fixed of a warm-up", "10/s burst 3 warm-up 2s debt 5"},
	{"fixed of a warm-up with a remainder", "1000003/min burst 20 warm-up 3001us"},
	{"pair of an interval", "10/min burst 20 interval-refill"},
	{"word of a window", "10/min fixed-window"},
	{"word opened by the first", "10/min fixed-window anchor first debt 5"},
	{"word of a day", "50/day calendar Asia/Seoul"},
	{"word of many units", "100000/min fixed-window debt 9"},
	{"word of as many as may be", "8589934591/s fixed-window"},
	{"pair of a window that withholds", "10/min fixed-window initial 4"},
	{"pair of more units", "8589934592/s fixed-window"},
	{"pair of many opened by the first", "70000/min fixed-window anchor first"},
	{"duo", "20/min sliding-counter"},
	{"duo pre-filled", "20/min sliding-counter conservative pre-filled"},
	{"trio", "10GB/min sliding-counter"},
	{"ring of sub-windows", "30/min sliding-counter sub-windows 6"},
	{"ring of a log", "12/min sliding-log"},
	{"ring of a log of denials", "5/10s sliding-log count-denied"},
	{"ring of a histogram", "300/min sliding-histogram precision 4"},
}

// model is the simplest Store: a map of states without a bound.
type model struct {
	states map[string][]algo.State
	starts map[string]int64
	voids  map[string]int64
}

func newModel() *model {
	return &model{states: make(map[string][]algo.State), starts: make(map[string]int64), voids: make(map[string]int64)}
}

func (m *model) take(req sluice.Request, now int64) sluice.Decision {
	var items []algo.Item
	var names []string
	for _, c := range append([]sluice.Charge{req.Charge}, req.More...) {
		for i := range c.Plan.Len() {
			it := algo.Item{Term: c.Plan.Term(i), Cost: c.Cost, Void: m.voids[c.Plan.Scope()+"|"+c.Key]}
			rule := c.Plan.Scope() + "|" + it.Term.Name
			if m.starts[rule] == 0 {
				m.starts[rule] = now
			}
			it.Start = m.starts[rule]
			name := rule + "|" + c.Key
			var live []algo.State
			for _, s := range m.states[name] {
				if s.Idle > now {
					s.Ring = append([]uint64(nil), s.Ring...)
					live = append(live, s)
				}
			}
			it.Pick(live)
			items, names = append(items, it), append(names, name)
		}
	}
	d := algo.Decide(&req, items, now)
	for i := range items {
		if items[i].Written && req.Op != sluice.OpPeek {
			m.states[names[i]] = items[i].Keep(nil)
		}
	}
	i := 0
	for _, c := range append([]sluice.Charge{req.Charge}, req.More...) {
		for range c.Plan.Len() {
			m.voids[c.Plan.Scope()+"|"+c.Key] = max(m.voids[c.Plan.Scope()+"|"+c.Key], items[i].Void)
			i++
		}
	}
	return d
}

// TestEqualsModel sends the same random requests, of every operation, over one and several
// keys and limits, to a Store and a map of states.
func TestEqualsModel(t *testing.T) {
	t.Parallel()
	var plans []*sluice.Plan
	for _, l := range limits {
		plans = append(plans, testkit.Plan(t, "one of "+l.name, l.text))
	}
	plans = append(plans,
		testkit.Plan(t, "credit", "5/s credit 9 credit-for 2s"),
		testkit.Plan(t, "much credit", "70/s burst 3 credit 500000000 credit-for 90s"),
		testkit.Plan(t, "two", "5/s", "50/min fixed-window"),
		testkit.Plan(t, "three", "20/min sliding-log", "10/s burst 20 leaky-bucket nodelay", "40/min sliding-counter sub-windows 4"),
		testkit.Plan(t, "nine", "a: 90/min", "b: 91/min", "c: 92/min", "d: 93/min", "e: 94/min", "f: 95/min", "g: 96/min sliding-log", "h: 97/min fixed-window", "i: 98/min sliding-counter"),
	)
	ops := []sluice.Op{sluice.OpTake, sluice.OpTake, sluice.OpTake, sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpTakeUpTo, sluice.OpReserve, sluice.OpReset, sluice.OpAdd, sluice.OpConvert}
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 1))
			clock := testkit.NewClock()
			store := memstore.New(memstore.Options{Now: clock.Now, MaxKeys: 20_000})
			m := newModel()
			randomCharge := func() sluice.Charge {
				c := sluice.Charge{Plan: plans[rnd.IntN(len(plans))], Key: fmt.Sprint("key-", rnd.IntN(20)), Cost: 1}
				switch rnd.IntN(8) {
				case 0:
					c.Cost = 0
				case 1, 2, 3:
					c.Cost = rnd.Int64N(1 + c.Plan.Term(0).Quota/2)
				case 4:
					c.Cost = rnd.Int64N(3 * c.Plan.Term(0).Quota)
				}
				return c
			}
			past := []sluice.Instant{sluice.InstantOf(clock.Now())}
			for step := range testkit.Steps(6000, 60_000) {
				req := sluice.Request{Op: ops[rnd.IntN(len(ops))], Charge: randomCharge()}
				for rnd.IntN(4) == 0 && len(req.More) < 3 {
					req.More = append(req.More, randomCharge())
				}
				switch req.Op {
				case sluice.OpReserve:
					req.MaxWait = time.Duration(rnd.IntN(100)) * time.Second
				case sluice.OpRefund:
					req.At = past[rnd.IntN(len(past))]
				case sluice.OpReset:
					if rnd.IntN(10) > 0 {
						continue
					}
				}
				if req.Validate() != nil {
					continue // a second charge of the same key
				}
				want, got := req, req
				want.Outcomes, got.Outcomes = new(make(sluice.Outcomes, req.Limits())), new(make(sluice.Outcomes, req.Limits()))
				if rnd.IntN(2) == 0 && req.Op != sluice.OpReserve {
					want.Outcomes, got.Outcomes = nil, nil
				}
				wantD := m.take(want, clock.Micros())
				gotD := testkit.Take(t, store, got)
				if gotD != wantD || !reflect.DeepEqual(got.Outcomes, want.Outcomes) {
					t.Fatalf("step %d: %v of %q cost %d and %d more: got %+v %+v, want %+v %+v", step, req.Op, req.Plan.Scope(), req.Cost, len(req.More), gotD, got.Outcomes, wantD, want.Outcomes)
				}
				if gotD.Allowed {
					past = append(past, gotD.At)
					past = past[max(len(past)-20, 0):]
				}
				switch rnd.IntN(40) {
				case 0:
					clock.Advance(time.Duration(rnd.Int64N(int64(time.Minute))))
				default:
					clock.Advance(time.Duration(rnd.Int64N(int64(100 * time.Millisecond))))
				}
			}
			if st := store.Stats(); st.Evicted != 0 || st.States == 0 {
				t.Errorf("got %+v, want states and no evictions", st)
			}
		})
	}
}
