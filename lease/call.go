// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// call is a take on its way to the store. If it leases, it is the only one of
// its key that does, and must end.
type call struct {
	job    *job
	shard  *shard
	entry  *entry
	leases bool
	flight flight
}

// rounds is how often a take waits for another's answer before it asks alone.
const rounds = 2

// leased decides a take that a lease can answer.
func (s *Store) leased(ctx context.Context, j *job) (sluice.Decision, error) {
	n, sh := s.table.find(j.terms, j.req.Key)
	for round := 0; ; round++ {
		c := call{job: j, shard: sh}
		d, wait, done := s.begin(&c, n, round)
		if done {
			return d, nil
		}
		if wait == nil {
			return s.fly(ctx, &c)
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return sluice.Decision{}, ctx.Err()
		}
		sh.mu.Lock()
		err := c.entry.err
		sh.mu.Unlock()
		if err != nil {
			return sluice.Decision{}, err
		}
	}
}

// begin decides c here, or returns what to wait for, or makes it ready to fly.
func (s *Store) begin(c *call, n id, round int) (d sluice.Decision, wait chan struct{}, done bool) {
	j, sh := c.job, c.shard
	sh.mu.Lock()
	defer sh.mu.Unlock()
	at := s.clock()
	e := sh.entry(n, j.terms, at)
	c.entry = e
	if e == nil {
		s.prepare(c, at)
		return d, nil, false
	}
	if round == 0 {
		e.demand(j.terms, at, j.req.Cost)
	}
	d, done = e.take(at, j.req.Cost, j.req.Outcomes.All())
	sh.settled(e)
	switch {
	case done && d.Allowed:
		sh.stats.Allowed++
		return d, nil, true
	case done:
		sh.stats.Denied++
		return d, nil, true
	}
	if op, units := e.ask(j.terms, j.req.Cost); units > j.req.Cost || op == sluice.OpReserve {
		if e.flying != nil && round < rounds {
			return d, e.flying, false
		}
		if e.flying == nil {
			e.flying, e.err = make(chan struct{}), nil
			c.leases = true
		}
	}
	s.prepare(c, at)
	return d, nil, false
}

// prepare says what c asks for. Under the lock of its shard.
func (s *Store) prepare(c *call, at moment) {
	c.shard.stats.Asked++
	c.flight = flight{
		cost: c.job.req.Cost, op: sluice.OpTake, units: c.job.req.Cost, sent: at,
		outcomes: make(sluice.Outcomes, c.job.req.Plan.Len()),
	}
	if c.entry != nil {
		c.flight.epoch = c.entry.epoch
	}
	if c.leases {
		c.flight.op, c.flight.units = c.entry.ask(c.job.terms, c.flight.cost)
	}
}

// request returns what c asks the store.
func (c *call) request() sluice.Request {
	req := c.job.req
	req.Op, req.Cost, req.Outcomes = c.flight.op, c.flight.units, &c.flight.outcomes
	if req.Op == sluice.OpReserve {
		req.MaxWait = time.Duration(c.job.terms.ttl) * time.Microsecond
	}
	return req
}

// fly asks the store, and again where the take alone must be asked.
func (s *Store) fly(ctx context.Context, c *call) (sluice.Decision, error) {
	defer c.end()
	refunds := s.collect(c)
	d, err := s.ask(ctx, refunds, c)
	if err != nil {
		return d, s.failed(ctx, c, err)
	}
	if known, ok := s.answered(c, d); ok {
		return known, nil
	}
	return s.again(ctx, c)
}

// again asks for no more than the take needs.
func (s *Store) again(ctx context.Context, c *call) (sluice.Decision, error) {
	c.shard.mu.Lock()
	c.shard.stats.Asked++
	c.flight.units = c.flight.cost
	c.flight.sent = s.clock()
	c.flight.epoch = c.entry.epoch
	c.shard.mu.Unlock()
	d, err := s.store.Take(ctx, c.request())
	if err != nil {
		return d, s.failed(ctx, c, err)
	}
	d, _ = s.answered(c, d)
	return d, nil
}

// collect takes what is to be given back with a call that leases. The denial
// that may come of the call is decided after it.
func (s *Store) collect(c *call) []sluice.Request {
	if !c.leases {
		return nil
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	reqs := c.entry.spares()
	for i := range reqs {
		c.shard.stats.Returned += uint64(reqs[i].Cost)
	}
	c.flight.epoch = c.entry.epoch
	return reqs
}

// ask sends c, behind what is to be given back. What cannot be given back stays
// counted until it is forgotten.
func (s *Store) ask(ctx context.Context, refunds []sluice.Request, c *call) (sluice.Decision, error) {
	if len(refunds) == 0 {
		return s.store.Take(ctx, c.request())
	}
	reqs := slices.Concat(refunds, []sluice.Request{c.request()})
	out := make([]sluice.Result, len(reqs))
	err := sluice.TakeBatch(ctx, s.store, reqs, out)
	_ = c.shard.returned(refunds, out, err) // the take goes on
	if err != nil {
		return sluice.Decision{}, err
	}
	last := out[len(refunds)]
	return last.Decision, last.Err
}

// answered takes note of the store's answer. It reports false if the take must
// be asked again, alone.
func (s *Store) answered(c *call, d sluice.Decision) (sluice.Decision, bool) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	ok, more := true, int64(0) // units for later takes
	if e := c.entry; e != nil {
		spent := d.Spent
		d, ok = e.answered(c.job.terms, &c.flight, s.clock(), d)
		if ok && spent > d.Spent && !d.Degraded {
			c.shard.stats.Leased += uint64(spent - d.Spent)
			if d.Allowed {
				more = spent - d.Spent
			}
		}
		if e.key == "" {
			e.key = strings.Clone(c.job.req.Key)
		}
		c.shard.settled(e)
	}
	if out := c.job.req.Outcomes.All(); ok && len(out) > 0 {
		for i, o := range c.flight.outcomes {
			o.Remaining += more
			out[i] = o
		}
	}
	return d, ok
}

// failed shares an error with those who wait, if it is the store's: that of a
// caller who is gone says nothing to others.
func (s *Store) failed(ctx context.Context, c *call, err error) error {
	if c.leases && ctx.Err() == nil {
		c.shard.mu.Lock()
		c.entry.err = err
		c.shard.mu.Unlock()
	}
	return err
}

// end lets those go on who wait for c.
func (c *call) end() {
	if !c.leases {
		return
	}
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	close(c.entry.flying)
	c.entry.flying = nil
}
