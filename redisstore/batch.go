// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/stores"
)

// TakeBatch decides independent requests in order, each by itself, and fills out. Requests
// of one slot each are sent at once, with those of other callers. Consecutive requests for
// one key under one plan share a call, and takes of different keys may. Requests for one
// key whose limit was changed are sent one after the other. TakeBatch blocks for one round
// trip, no longer than ctx or Options.Timeout. A request over several slots of a Cluster
// takes round trips of its own, after the requests before it.
func (s *Store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	if err := stores.ValidateBatch(reqs, out); err != nil {
		return err
	}
	if err := s.admit(ctx); err != nil {
		return fmt.Errorf("redisstore: batch: %w", err)
	}
	defer s.pending.done()
	if ctx.Done() == nil {
		s.decideAll(s.bound(), reqs, out) //nolint:contextcheck // ctx never ends
		return nil
	}
	mine := make([]sluice.Request, len(reqs))
	for i := range reqs {
		mine[i] = stores.Clone(&reqs[i])
	}
	a := begin(s.bound(), s, func(ctx context.Context) []sluice.Result { //nolint:contextcheck // see leave.go
		results := make([]sluice.Result, len(mine))
		s.decideAll(ctx, mine, results)
		return results
	})
	results, ok := a.wait(ctx)
	if !ok {
		a.leave(s, s.leaveAll(ctx, mine, out))
		return nil
	}
	copy(out, results)
	for i := range reqs {
		stores.Fill(&reqs[i], &mine[i])
	}
	return nil
}

// leaveAll detaches all valid requests from their caller, and returns the function that
// gets their results.
func (s *Store) leaveAll(ctx context.Context, reqs []sluice.Request, out []sluice.Result) func(context.Context, []sluice.Result) {
	all := make([]*late, len(reqs))
	for i := range reqs {
		req := &reqs[i]
		if out[i] = (sluice.Result{Err: req.Validate()}); out[i].Err == nil {
			all[i] = s.lateTake(ctx, req)
			out[i].Err = wrap(req, all[i].gone)
		}
	}
	return func(ctx context.Context, results []sluice.Result) {
		for i, l := range all {
			if l != nil {
				l.answer(ctx, results[i].Decision, results[i].Err)
			}
		}
	}
}

// decideAll decides requests under a context of the store's own.
func (s *Store) decideAll(ctx context.Context, reqs []sluice.Request, out []sluice.Result) {
	b := batch{store: s, last: make(map[string]*sent)}
	for i := range reqs {
		req := &reqs[i]
		out[i] = sluice.Result{}
		if out[i].Err = req.Validate(); out[i].Err != nil {
			continue
		}
		c := s.newCall(req)
		if req.Slot != nil || rare(req) || s.swaps(c) || s.crosses(c) {
			b.flush(ctx)
			d, err := s.direct(ctx, c, req)
			put(&out[i], req, d, err)
			continue
		}
		b.add(ctx, c, req, &out[i])
	}
	b.flush(ctx)
}

func put(r *sluice.Result, req *sluice.Request, d sluice.Decision, err error) {
	if err != nil {
		r.Err = wrap(req, err)
	} else {
		r.Decision = d
	}
}

// batch is a list of calls to be sent together.
type batch struct {
	store *Store
	calls []*sent
	last  map[string]*sent // the last call on a key, by tag
}

// sent is a call and the destinations of its jobs' results.
type sent struct {
	call        *call
	plan        *sluice.Plan // nil if the call has several charges
	results     []*sluice.Result
	mayNeedSwap bool // the script may be unable to decide it
}

// follows reports whether a waiting call on a key of c may be decided without its script:
// that happens after all calls that are sent with it.
func (b *batch) follows(c *call) bool {
	for _, tag := range c.tags {
		if l := b.last[tag]; l != nil && l.mayNeedSwap {
			return true
		}
	}
	return false
}

// mayNeedSwap reports whether, as far as this process knows, other limits may have written
// the states of c.
func (s *Store) mayNeedSwap(c *call) bool {
	s.guess(c)
	for i := range c.items {
		if it := &c.items[i]; it.metOthers || it.series.sight(it.term) > c.now {
			return true
		}
	}
	return false
}

// add appends a request to the last call on its key, if that has the same plan and has met
// the same limits. Otherwise it appends a new call.
func (b *batch) add(ctx context.Context, c *call, req *sluice.Request, result *sluice.Result) {
	if len(req.More) == 0 {
		if l := b.last[c.tags[0]]; l != nil && l.plan == req.Plan && len(l.call.jobs) < maxBatch && c.hasMetAs(l.call) {
			l.call.jobs = append(l.call.jobs, &job{op: req.Op, req: req})
			l.results = append(l.results, result)
			return
		}
	}
	if b.follows(c) {
		b.flush(ctx)
	}
	c.ask(req)
	n := &sent{call: c, results: []*sluice.Result{result}, mayNeedSwap: b.store.mayNeedSwap(c)}
	if len(req.More) == 0 {
		n.plan = req.Plan
	}
	for _, tag := range c.tags {
		b.last[tag] = n
	}
	b.calls = append(b.calls, n)
}

// hasMetAs reports whether the field metOthers of all limits equals that of an earlier call
// for the same key.
func (c *call) hasMetAs(earlier *call) bool {
	for i := range c.items {
		if c.items[i].metOthers != earlier.items[i].metOthers {
			return false
		}
	}
	return true
}

// first reports whether another call on a key of n comes after it. If a server did not know
// n's script, the other call would run before n.
func (b *batch) first(n *sent) bool {
	for _, tag := range n.call.tags {
		if b.last[tag] != n {
			return true
		}
	}
	return false
}

// flush sends the waiting calls and fills their results.
func (b *batch) flush(ctx context.Context) {
	s := b.store
	list, replies, tags := make([]*invocation, len(b.calls)), make([]Reply, len(b.calls)), 0
	for i, n := range b.calls {
		s.guess(n.call)
		list[i] = s.invocation(n.call)
		tags += len(n.call.tags)
	}
	switch ordered := tags > len(b.last); { // if a key has two calls
	case len(list) == 0:
		return
	case s.cluster || ordered || !s.recent(ctx) || !s.sendMany(list, replies): //nolint:contextcheck // see leave.go
		b.sendInOrder(ctx, list, replies)
	default:
		s.sendAgain(ctx, list, replies)
	}
	for i, n := range b.calls {
		err := s.conclude(ctx, n.call, list[i], list[i].retry(ctx, s, replies[i]))
		for k, r := range n.results {
			j := n.call.jobs[k]
			put(r, j.req, j.decision, err)
		}
	}
	b.calls = b.calls[:0]
	clear(b.last)
}

// sendAgain runs, together, the programs that a shared call has not run.
func (s *Store) sendAgain(ctx context.Context, list []*invocation, replies []Reply) {
	var scripts []*Script
	for i, inv := range list {
		if errors.Is(replies[i].Err, errNotRun) {
			scripts = append(scripts, inv.bySHA())
		}
	}
	if len(scripts) == 0 {
		return
	}
	again := make([]Reply, len(scripts))
	s.client.Run(ctx, scripts, again)
	for i := range replies {
		if errors.Is(replies[i].Err, errNotRun) {
			replies[i], again = again[0], again[1:]
		}
	}
}

// sendInOrder runs the programs of all calls, in their order for each key.
func (b *batch) sendInOrder(ctx context.Context, list []*invocation, replies []Reply) {
	scripts := make([]*Script, len(list))
	loaded := make(map[string]bool)
	for i, inv := range list {
		if b.first(b.calls[i]) && !loaded[inv.sha] {
			scripts[i] = inv.byText()
			loaded[inv.sha] = !b.store.cluster // other nodes may not have it
		} else {
			scripts[i] = inv.bySHA()
		}
	}
	b.store.client.Run(ctx, scripts, replies)
}
