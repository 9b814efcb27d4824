// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strconv"

	"github.com/sluicegate/sluice"
)

// checker sends steps to a store and checks its answers.
type checker struct {
	world    *compiled
	store    Store
	began    int64
	now      int64
	prefix   string
	accounts map[place]*account
	starts   map[*series]*between
	receipts []receipt
	items    []item
	current  []Part // what the request charges
	outcomes [16]sluice.Outcome
	room     sluice.Outcomes // the part of outcomes that a request needs
	steps    int
	asked    int  // requests to the store
	waited   bool // units were reserved
	ended    bool // the clock has stepped back
}

type place struct {
	series *series
	key    int
}

// item is one limit of a request.
type item struct {
	v    *version
	l    *account
	key  int
	cost int64
	fits between // before the request
}

// receipt records the units that a step has spent and not given back.
type receipt struct {
	step    int
	charges []Part
	at, due sluice.Instant
	held    int64
	parted  bool // a part was given back, so Due no longer applies
}

func newChecker(world *compiled, store Store, now int64, prefix string) *checker {
	return &checker{
		world: world, store: store, began: now, now: now, prefix: prefix,
		accounts: make(map[place]*account), starts: make(map[*series]*between),
	}
}

// do sends a step to the store. It returns the answer, or nil if there was nothing to send,
// and the fault of the answer.
func (j *checker) do(s *Step) (*sluice.Decision, error) {
	j.steps++
	id := s.ID
	if id == 0 {
		id = j.steps
	}
	switch {
	case j.ended:
		return nil, nil //nolint:nilnil // as below
	case s.Advance < 0:
		return j.stepBack(s)
	}
	j.waited = j.waited || s.Wait > 0 || s.Op == sluice.OpReserve
	j.now += s.Advance
	j.store.Set(j.now)
	req, r := j.request(s)
	if req == nil {
		return nil, nil //nolint:nilnil // there was nothing to send, which is no fault
	}
	j.begin(req, s, r)
	if s.Asks && (s.Op == sluice.OpTake || s.Op == sluice.OpReserve) {
		if err := j.asks(req); err != nil {
			return nil, err
		}
	}
	d, err := j.ask(req)
	if err != nil {
		return nil, err
	}
	if err := j.check(req, r, id, &d); err != nil {
		return &d, err
	}
	if s.Asks && !d.Allowed && !j.countsDenied() {
		again, err := j.ask(req)
		if err != nil {
			return &d, err
		}
		if again != d {
			return &d, fmt.Errorf("unchanged: a denial changes nothing, but asked again the answer is %+v, not %+v", again, d)
		}
	}
	return &d, nil
}

func (j *checker) ask(req *sluice.Request) (sluice.Decision, error) {
	j.asked++
	d, err := j.store.Take(background(), *req)
	if err != nil {
		return d, fmt.Errorf("decision: %w", err)
	}
	return d, nil
}

// request makes a step's request, nil if it has no receipt to refund.
func (j *checker) request(s *Step) (*sluice.Request, *receipt) {
	req := &sluice.Request{Op: s.Op, MaxWait: micros(s.Wait)}
	if s.Op != sluice.OpRefund {
		req.Charge = j.charge(s.Plan, s.Key, s.Cost)
		for _, m := range s.More {
			req.More = append(req.More, j.charge(m.Plan, m.Key, s.Cost))
		}
	}
	var r *receipt
	if s.Op == sluice.OpRefund {
		if r = j.receipt(s.Of); r == nil {
			return nil, nil
		}
		units := min(s.Give.of(r.held), r.held)
		for i, p := range r.charges {
			if i == 0 && s.Plan < len(j.world.plans) && j.versions(p.Plan, s.Plan) {
				p.Plan = s.Plan // another version gives back the units
			}
			c := j.charge(p.Plan, p.Key, units)
			if c.Counted = r.held; i == 0 {
				req.Charge = c
			} else {
				req.More = append(req.More, c)
			}
		}
		if req.At = r.at; units == r.held && !r.parted {
			req.Due = r.due
		}
	}
	if s.Outcomes || s.Op == sluice.OpCharge && len(req.More) > 0 || s.Op == sluice.OpAdd || s.Op == sluice.OpConvert {
		j.room = j.outcomes[:req.Limits()]
		req.Outcomes = &j.room
	}
	return req, r
}

// versions reports whether two plans count in the same states: their limits are, in order,
// versions of each other.
func (j *checker) versions(a, b int) bool {
	p, q := j.world.terms[a], j.world.terms[b]
	if len(p) != len(q) {
		return false
	}
	for i := range p {
		if p[i].series != q[i].series || p[i].form != q[i].form {
			return false
		}
	}
	return true
}

func (j *checker) charge(plan, key int, cost int64) sluice.Charge {
	return sluice.Charge{Plan: j.world.plans[plan], Key: j.prefix + strconv.Itoa(key), Cost: cost}
}

// receipt returns a receipt that still holds units.
func (j *checker) receipt(of int) *receipt {
	for i := range j.receipts {
		r := &j.receipts[i]
		switch {
		case of == Newest:
			r = &j.receipts[len(j.receipts)-1-i]
		case of != Oldest && r.step != of:
			continue
		}
		if r.held > 0 {
			return r
		}
	}
	return nil
}

// begin finds the accounts of a request and when each limit fits before it.
func (j *checker) begin(req *sluice.Request, s *Step, r *receipt) {
	j.items, j.current = j.items[:0], j.current[:0]
	if r != nil {
		for i, p := range r.charges {
			if i == 0 && j.versions(p.Plan, s.Plan) {
				p.Plan = s.Plan
			}
			j.add(p, req)
		}
		return
	}
	j.add(Part{s.Plan, s.Key}, req)
	for _, m := range s.More {
		j.add(m, req)
	}
}

func (j *checker) add(p Part, req *sluice.Request) {
	j.current = append(j.current, p)
	for _, v := range j.world.terms[p.Plan] {
		it := item{v: v, l: j.account(v, p.Key, req.Op), key: p.Key, cost: req.Cost}
		it.fits = j.fits(&it, req)
		j.items = append(j.items, it)
	}
}

// account returns the account of a key, and records when the rule started.
//
// rules.md 4 has the start at the first compile, DESIGN §4 at the start of the
// rule; a store learns of a rule by its first use. Whether a peek is a use is
// not stated.
func (j *checker) account(v *version, key int, op sluice.Op) *account {
	start := j.starts[v.series]
	if start == nil {
		start = &between{j.now, never}
		j.starts[v.series] = start
	}
	if op != sluice.OpPeek {
		start.hi = min(start.hi, j.now)
	}
	at := place{v.series, key}
	l := j.accounts[at]
	if l == nil {
		l = &account{series: v.series}
		j.accounts[at] = l
	}
	l.start = between{start.lo, min(start.hi, j.now)}
	return l
}

// fits returns when a request's cost fits a limit. A cost that a queue would delay beyond
// MaxWait does not fit, as under a shorter queue.
func (j *checker) fits(it *item, req *sluice.Request) between {
	f := it.l.fits(it.v, j.now, it.cost)
	if !it.v.queues || req.MaxWait == 0 && req.Op != sluice.OpReserve || f.lo == never {
		return f
	}
	delay, patience := it.l.bucketDelay(it.v, j.now, it.cost), req.MaxWait.Microseconds()
	f.lo = max(f.lo, j.now+delay.lo-patience)
	if f.hi != never {
		f.hi = max(f.hi, j.now+delay.hi-patience)
	}
	return f
}

func (j *checker) countsDenied() bool {
	for i := range j.items {
		if v := j.items[i].v; v.countDenied || v.kind == blockKind {
			return true
		}
	}
	return false
}
