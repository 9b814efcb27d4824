// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
)

// opDeny and opRefuse are operations of a script in addition to those of package sluice:
// opDeny is a take that another limit has denied.
const (
	opDeny   = sluice.OpExtend + 1 + iota
	opRefuse // a reservation that another limit has denied
)

// job is one operation of a call.
type job struct {
	// op is the operation of the script: the request's, or opDeny, opRefuse or, for a
	// look, OpPeek.
	op  sluice.Op
	req *sluice.Request // its charges are those of the call, its Outcomes the call's limits
	// denied is set if another limit, charged elsewhere, denies the request.
	denied bool
	// least is the shortest time from now until a reservation or charge counts.
	least time.Duration

	decision sluice.Decision
	written  bool          // whether it changed a state, or would have
	turn     time.Duration // time from now until a charge would count
}

// plain reports whether the script for takes under a kind of limit decides the job: it is a take,
// or a charge of a fixed window.
func (j *job) plain(k kind) bool {
	if j.op == sluice.OpCharge && k == kindFixed {
		return j.least == 0 && len(j.req.More) == 0 && j.req.Hold == nil
	}
	return j.op == sluice.OpTake && j.req.MaxWait == 0 && len(j.req.More) == 0 && j.req.Hold == nil
}

// scriptCost returns the cost of a plain job as the script takes it: negative if it is a charge.
func (j *job) scriptCost() int64 {
	if j.op == sluice.OpCharge {
		return -j.req.Cost
	}
	return j.req.Cost
}

// newCall returns a call on the keys of req, without jobs.
func (s *Store) newCall(req *sluice.Request) *call {
	c, ok := s.calls.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.charges = req.Charges()
	c.items, c.tags = c.room.items[:0], c.room.tags[:0]
	for n := 1; n < c.charges; n++ {
		s.prepared(req.Nth(n).Plan) // limits of one name on different keys are met before any of them counts
	}
	for n := range c.charges {
		var tag string
		c.items, tag = s.appendItems(c.items, req.Nth(n), n)
		c.tags = append(c.tags, tag)
	}
	return c
}

// recycle keeps a call for another request. Nothing may refer to it any more: its caller
// must have waited for its end.
func (s *Store) recycle(c *call) {
	*c = call{}
	s.calls.Put(c)
}

// ask makes req the call's only job.
func (c *call) ask(req *sluice.Request) *job {
	j := &c.room.job
	j.op, j.req = req.Op, req
	c.room.jobs[0] = j
	c.jobs = c.room.jobs[:]
	return j
}

// call is a list of operations on the same limits of the same keys, all in one hash slot.
// One script decides them in order.
type call struct {
	items   []item
	tags    []string // of the charges' keys
	charges int
	jobs    []*job

	// at, if positive, is the instant at which keys of another slot were decided. The
	// call is decided at the same instant unless that is too long ago.
	at int64
	// undo gives back the units of a call: states that still equal from, as that call
	// left them, are replaced by to, as it found them.
	undo     bool
	from, to []string
	// general is set if the script for takes leaves the call to the general one.
	general bool
	// part is set if the call decides a part of a request.
	part bool
	// held is set if the call is decided with the holds of its keys.
	held bool

	// voids are the instants up to which receipts are void, one for each charge, if the
	// jobs read or change them.
	voids []int64

	now int64 // the server's instant, set once it is decided
	// before and after are the values of the keys before and after the call, if known.
	before, after []string

	room room
}

// room is the memory of most calls, which have one job on one limit.
type room struct {
	req   sluice.Request
	items [1]item
	found [1]algo.Item
	tags  [1]string
	job   job
	jobs  [1]*job
	inv   invocation
	keys  [1]string
	args  [4]string
}

// attempts is the number of times that a call is sent because a calendar window has
// ended meanwhile.
const attempts = 8

var errChanging = errors.New("calendar windows ended again and again meanwhile")

// status is the status in a script's reply.
type status int64

const (
	done         status = iota
	otherWindow         // the calendar edges do not include the server's time
	otherLimit          // another limit wrote a state, or the start of a rule still counts
	needsGeneral        // the script for takes leaves the call to the general one
)

// guess sets c.now to an estimate of the server's time, if scripts get calendar windows.
func (s *Store) guess(c *call) {
	if s.inject != nil {
		c.now = s.inject()
		return
	}
	for i := range c.items {
		if c.items[i].term.Calendar != sluice.NoCalendar {
			c.now = max(s.clock().UnixMicro(), 0)
			return
		}
	}
}

// run decides the call.
func (s *Store) run(ctx context.Context, c *call) error {
	if s.swaps(c) {
		return s.swap(ctx, c, nil)
	}
	s.guess(c)
	inv := s.invocation(c)
	return s.conclude(ctx, c, inv, s.send(ctx, inv))
}

// conclude computes the decisions from the script's reply. It sends another script if the
// first one could not decide.
func (s *Store) conclude(ctx context.Context, c *call, inv *invocation, res Reply) error {
	for range attempts {
		st, replies, err := s.replied(c, inv, &res)
		if err != nil {
			return err
		}
		switch st {
		case done:
			return c.finish(replies)
		case otherLimit:
			found, err := replies.values()
			if err != nil {
				return err
			}
			return s.swap(ctx, c, found)
		case needsGeneral:
			c.general = true
		case otherWindow: // c.now is the server's time
		}
		inv = s.invocation(c)
		res = inv.do(ctx, s)
	}
	return errChanging
}

// finish computes the decisions from the states that the script found.
func (c *call) finish(f found) error {
	if err := c.describe(f); err != nil {
		return err
	}
	c.noteDecided()
	return nil
}

// noteDecided records that the limits of a request were in use at c.now.
func (c *call) noteDecided() {
	if c.part {
		return
	}
	for i := range c.items {
		c.items[i].series.decided(c.now)
	}
}

// plain reports whether the script for takes under one limit decides the call.
func (c *call) plain() bool {
	if len(c.items) > 1 || c.at > 0 || c.from != nil || c.general {
		return false
	}
	if t := c.items[0].term; t.Lent > 0 || t.WarmUp > 0 || (t.InitialDeficit > 0 || t.CountDenied || t.Credit > 0) && kindOf(t) == kindBucket {
		return false
	}
	for _, j := range c.jobs {
		if !j.plain(kindOf(c.items[0].term)) {
			return false
		}
	}
	return true
}

// invocation returns the script that decides the call.
func (s *Store) invocation(c *call) *invocation {
	mode, at := int64(0), int64(0)
	switch {
	case s.inject != nil:
		mode, at = 1, c.now
	case c.at > 0:
		mode, at = 2, c.at
	}
	if c.plain() {
		return s.takes(c, mode, at)
	}
	inv := &c.room.inv
	*inv = invocation{program: s.programs.of(kindsOf(c.items))}
	inv.Keys = make([]string, 0, len(c.items)+len(c.tags))
	inv.Args = make([]string, 0, 2+4*len(c.items))
	var ops []byte
	for _, j := range c.jobs {
		ops = appendNumbers(ops, int64(j.op), j.req.MaxWait.Microseconds(), int64(j.req.At), int64(j.req.Due), j.least.Microseconds())
		for n := range c.charges {
			charge := j.req.Nth(n)
			ops = appendNumbers(ops, charge.Cost, charge.Counted)
		}
	}
	inv.Args = append(inv.Args, string(appendNumbers(nil, mode, at, int64(c.charges), bit(c.undo)+2*bit(c.voiding()))), string(ops))
	reach := c.reach()
	for i := range c.items {
		it := &c.items[i]
		inv.Keys = append(inv.Keys, it.key)
		inv.Args = append(inv.Args, string(it.appendArgs(nil, c.now, reach)), it.head)
	}
	inv.Keys = append(inv.Keys, c.voidKeys()...)
	for i := range c.from {
		inv.Args = append(inv.Args, c.from[i], c.to[i])
	}
	return inv
}

// reach returns the furthest, in µs, that a reservation under a limit of the call may be ahead of
// now: all limits of a request are decided at the latest of their instants. It returns 0 if no
// limit has a calendar, whose edges the scripts must know up to there.
func (c *call) reach() (most int64) {
	if !slices.ContainsFunc(c.items, func(it item) bool { return it.term.Calendar != sluice.NoCalendar }) {
		return 0
	}
	for i := range c.items {
		most = max(most, algo.Horizon(c.items[i].term))
	}
	return most
}

// takes returns the script for a plain call.
func (s *Store) takes(c *call, mode, at int64) *invocation {
	it := &c.items[0]
	k, r := kindOf(it.term), &c.room
	p := s.programs.takes[kindBucket] // without a lock
	if k != kindBucket {
		p = s.programs.ofTakes(k)
	}
	r.keys[0] = it.key
	r.inv = invocation{program: p, Script: Script{Keys: r.keys[:], Args: r.args[:2]}, shares: len(c.jobs) == 1 && p.each != nil && s.mayShare(it.term)}
	if k != kindBucket {
		r.args[0], r.args[1] = it.take, it.head
		if it.take == "" {
			r.args[0] = string(it.appendArgs(nil, c.now, 0))
		}
		if mode != 0 || len(c.jobs) > 1 || c.jobs[0].scriptCost() != 1 {
			costs := appendNumbers(nil, mode, at)
			for _, j := range c.jobs {
				costs = appendNumbers(costs, j.scriptCost())
			}
			r.args[2] = string(costs)
			r.inv.Args = r.args[:3]
		}
		return &r.inv
	}
	numbers := it.take
	if len(c.jobs) > 1 || c.jobs[0].req.Cost != 1 {
		numbers = string(appendRuns(append(make([]byte, 0, len(numbers)+64), numbers...), c.jobs))
	}
	r.args[0], r.args[1] = it.head, numbers
	if it.metOthers {
		r.args[2] = "1"
		r.inv.Args = r.args[:3]
	}
	if mode == 1 {
		r.args[3] = strconv.FormatInt(at, 10)
		r.inv.Args = r.args[:]
	}
	return &r.inv
}

// appendRuns appends the costs of jobs as runs of equal costs: jobs that share a call
// mostly have the same cost. A run is a count and a cost, whose product a script can
// represent.
func appendRuns(b []byte, jobs []*job) []byte {
	for len(jobs) > 0 {
		n, cost := 1, jobs[0].req.Cost
		for n < len(jobs) && jobs[n].req.Cost == cost && cost <= sluice.MaxQuota/int64(n+1) {
			n++
		}
		b = appendNumbers(b, int64(n), cost)
		jobs = jobs[n:]
	}
	return b
}

// decide computes the job's decision and the new states.
func (j *job) decide(items []algo.Item, now int64) {
	j.decision, j.turn = algo.DecidePart(j.req, items, now, j.denied, j.least)
	j.written = false
	for i := range items {
		j.written = j.written || items[i].Written
	}
}

func copyOf(s *algo.State) algo.State {
	c := *s
	c.Ring = slices.Clone(s.Ring)
	return c
}
