// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package remote

import (
	"container/heap"
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/testkit"
)

// world simulates a store and the nodes that lease from it on one thread; its time moves from
// event to event. The same seed gives the same run.
type world struct {
	t      *testing.T
	rng    *rand.Rand
	faults faults
	info   *planInfo
	item   algo.Item // the store's state of the only key
	now    int64     // µs on the store's clock
	events events
	nodes  []*node

	uses                                    []use
	calls, decisions, allowed, denied, fell int
	units                                   int64 // used
	most                                    int64 // units that the nodes have held at once, at most
}

// faults are how often things fail: each is one case in that many, and zero means never.
type faults struct {
	delay                                int64 // µs, the most that a message takes
	loss, repeat, crash, clockSet, stall int
	drift                                bool // clocks differ in rate as much as Drift allows
}

// use is a number of units that were used at an instant.
type use struct{ at, units int64 }

type event struct {
	at, order int64
	do        func()
}

type events struct {
	list  []event
	order int64
}

func (e *events) Len() int      { return len(e.list) }
func (e *events) Swap(i, j int) { e.list[i], e.list[j] = e.list[j], e.list[i] }
func (e *events) Push(x any)    { e.list = append(e.list, x.(event)) }
func (e *events) Less(i, j int) bool {
	a, b := &e.list[i], &e.list[j]
	return a.at < b.at || a.at == b.at && a.order < b.order
}

func (e *events) Pop() any {
	last := e.list[len(e.list)-1]
	e.list = e.list[:len(e.list)-1]
	return last
}

// node is one process.
type node struct {
	w       *world
	near    *near
	life    int // how often the node was started
	pace    int64
	wall    int64 // ns by which its wall clock was moved
	boot    int64
	waiting []waiter
}

// waiter is a take that waits for another's answer.
type waiter struct {
	f     *nearCall
	round int
	wait  *waiters
}

const worldStart = 1_790_000_000_123_457

// leasedInfo returns the planInfo of a leased plan.
func leasedInfo(t *testing.T, plan *sluice.Plan, given sluice.LeaseTerms) *planInfo {
	t.Helper()
	pi, err := newNear(Options{Lease: always(given)}, nil).infoOf(plan)
	if err != nil {
		t.Fatal(err)
	}
	return pi
}

func newWorld(t *testing.T, seed uint64, nodes int, l sluice.Limit, given sluice.LeaseTerms, f faults) *world {
	t.Helper()
	plan := testkit.Compile(t, "world", l)
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 20)), faults: f, info: leasedInfo(t, plan, given), now: worldStart}
	for range nodes {
		n := &node{w: w}
		if f.drift {
			// The pace of the store's clock is 0: theirs is up to a part in
			// Drift slower or faster.
			n.pace = w.rng.Int64N(2*1_000_000/bounds.Drift+1) - 1_000_000/bounds.Drift
		}
		n.start()
		w.nodes = append(w.nodes, n)
	}
	return w
}

// start makes n a node that knows nothing.
func (n *node) start() {
	*n = node{w: n.w, near: newNear(Options{MaxKeys: -1}, nil), life: n.life + 1, pace: n.pace, boot: n.w.now}
	n.near.clock = n.clock
}

func (w *world) once(in int) bool { return in > 0 && w.rng.IntN(in) == 0 }

func (w *world) after(micros int64, do func()) {
	w.events.order++
	heap.Push(&w.events, event{at: w.now + micros, order: w.events.order, do: do})
}

// run processes arrivals until the end, and then everything else.
func (w *world) run() {
	for w.events.Len() > 0 {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		e.do()
		var held int64
		for _, n := range w.nodes {
			if e := n.near.shards[0].entries[1]; e != nil && e.leases != nil {
				at := n.clock()
				for i := range e.leases.grants {
					if p := &e.leases.grants[i]; p.wait(at) == 0 && at.since(p.sent) < p.usable {
						held += p.left
					}
				}
			}
		}
		w.most = max(w.most, held)
	}
}

func (n *node) clock() moment {
	passed := (n.w.now - n.boot) * 1000
	passed += (n.w.now - n.boot) * n.pace / 1000
	return moment{mono: passed, wall: passed + n.wall}
}

// arrive handles a request for cost units.
func (n *node) arrive(cost int64) {
	w := n.w
	if w.once(w.faults.crash) {
		n.start()
	}
	if w.once(w.faults.clockSet) {
		n.wall += w.rng.Int64N(int64(4*time.Second)) - int64(2*time.Second)
	}
	w.decisions++
	n.decide(&nearCall{
		req:      &sluice.Request{Charge: sluice.Charge{Plan: w.info.plan, Cost: cost}},
		question: question{cost: cost}, info: w.info, leasable: true, learns: w.info.deniable,
		first: sentCharge{shard: &n.near.shards[0], key: 1, info: w.info},
	}, 0)
}

func (n *node) decide(c *nearCall, round int) {
	var d sluice.Decision
	done, wait := n.near.begin(c, &d, round)
	switch {
	case done:
		n.w.decided(n.w.now, c.req.Cost, d.Allowed)
	case wait != nil:
		n.waiting = append(n.waiting, waiter{c, round + 1, wait})
	default:
		n.send(c)
	}
}

func (w *world) decided(at, cost int64, allowed bool) {
	if !allowed {
		w.denied++
		return
	}
	w.allowed++
	w.units += cost
	w.uses = append(w.uses, use{at, cost})
}

// trip is the way of one call to the store and back.
type trip struct {
	n       *node
	f       *nearCall
	req     sluice.Request
	refunds []sluice.Request
	life    int
	back    bool // answered, or no longer waited for
}

// patience is the time that a caller waits for an answer, in µs.
const patience = 200_000

func (n *node) send(c *nearCall) {
	w := n.w
	w.calls++
	k := &trip{n: n, f: c, life: n.life, req: *c.request(), refunds: c.refunds}
	c.refunds = nil
	copies := 1
	// No store sends twice what may have arrived, so that units are not given
	// back twice. Takes that arrive twice only deny more.
	if len(k.refunds) == 0 && w.once(w.faults.repeat) {
		copies = 2
	}
	for range copies {
		if !w.once(w.faults.loss) {
			w.after(w.delay(), k.arrive)
		}
	}
	w.after(patience, func() { k.fail() })
}

func (w *world) delay() int64 {
	if w.once(w.faults.stall) {
		return w.rng.Int64N(20*w.faults.delay + 1)
	}
	return w.rng.Int64N(w.faults.delay + 1)
}

// arrive handles the call at the store.
func (t *trip) arrive() {
	w := t.n.w
	for _, req := range t.refunds {
		w.decide(req)
	}
	outcomes := make(sluice.Outcomes, 1)
	req := t.req
	req.Outcomes = &outcomes
	d := w.decide(req)
	if w.once(w.faults.loss) {
		return
	}
	w.after(w.delay(), func() { t.answer(d, outcomes) })
}

func (w *world) decide(req sluice.Request) sluice.Decision {
	req.Plan = w.info.plan
	if err := req.Validate(); err != nil {
		w.t.Fatal(err)
	}
	w.item.Term, w.item.Cost = req.Plan.Term(0), req.Cost
	items := []algo.Item{w.item}
	kept := w.item.State
	d := algo.Decide(&req, items, w.now)
	w.item.State = kept
	if items[0].Written {
		w.item.State = items[0].State
	}
	return d
}

func (t *trip) answer(d sluice.Decision, outcomes []sluice.Outcome) {
	n := t.n
	if t.back || t.life != n.life {
		return
	}
	t.back = true
	copy(t.f.outcomes, outcomes)
	r := sluice.Result{Decision: d}
	if !n.near.finish(context.Background(), t.f, &r) {
		n.send(t.f)
		return
	}
	// The store's decision counts at its instant, as without leases.
	n.w.decided(int64(d.At), t.f.req.Cost, r.Decision.Allowed)
	n.goOn()
}

// gone is the context of a caller that waits no longer.
var gone = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// fail handles a caller that waits no longer.
func (t *trip) fail() {
	if t.back || t.life != t.n.life {
		return
	}
	t.back = true
	t.n.w.fell++
	t.n.near.finish(gone, t.f, &sluice.Result{Err: errNoAnswer})
	t.n.goOn()
}

// goOn resumes the takes that need not wait any longer.
func (n *node) goOn() {
	waiting := n.waiting
	n.waiting = nil
	for _, w := range waiting {
		select {
		case <-w.wait.done:
			n.decide(w.f, w.round)
		default:
			n.waiting = append(n.waiting, w)
		}
	}
}

// over returns the units by which uses in any span (t, t+d] exceed the number that l allows.
func (w *world) over(l sluice.Limit, d time.Duration) int64 {
	bound := algo.Bound(l, d)
	sorted := append([]use(nil), w.uses...)
	sortUses(sorted)
	var sum, worst int64
	first := 0
	for _, u := range sorted {
		sum += u.units
		for sorted[first].at <= u.at-d.Microseconds() {
			sum -= sorted[first].units
			first++
		}
		worst = max(worst, sum-bound)
	}
	return worst
}
