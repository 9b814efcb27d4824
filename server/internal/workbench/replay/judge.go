// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// judge decides arrivals under one policy, on a store of its own, whose clock the arrivals set.
type judge struct {
	evaluator *evaluate.Evaluator
	store     *memstore.Store
	now       int64
	lacks     lacks
	statuses  bool // some rule counts responses by their status
	fault     error
	spare     *request
	running   running
}

// request is a request that is decided and perhaps runs.
type request struct {
	call       evaluate.Call
	attributes attributes
	arrival    arrivals.Arrival // if it runs
	ends       int64
}

// newJudge returns a judge with room for so many states.
func newJudge(r *Rules) (*judge, error) {
	j := &judge{lacks: make(lacks), spare: new(request)}
	now := func() time.Time { return time.UnixMicro(j.now) }
	j.store = memstore.New(memstore.Options{MaxKeys: r.MaxKeys, Now: now})
	for _, rule := range r.Policy.Rules() {
		j.statuses = j.statuses || rule.When != nil
	}
	var err error
	j.evaluator, err = evaluate.New(evaluate.Options{
		Name: "replay", Policy: r.Policy, Store: j.store, Now: now, CallerWaits: true, Allow: r.Allow, Deny: r.Deny,
		OnError: func(_ context.Context, _ policy.Attributes, err error) { j.fault = err },
	})
	return j, err
}

// decide decides an arrival, which is not before the last one, once the responses until then
// are settled. The call is valid until the next decision. The request runs for as long as the
// log says; if that is not known, it ends at once.
func (j *judge) decide(ctx context.Context, a *arrivals.Arrival) (*evaluate.Call, error) {
	j.settle(ctx, a.At)
	j.now = a.At
	r := j.spare
	r.attributes.of, r.attributes.lacks = a, j.lacks
	j.evaluator.Decide(ctx, &r.attributes, &r.call)
	if !r.call.Settles() {
		return &r.call, j.fault
	}
	if j.statuses && a.Has&arrivals.Status == 0 {
		j.lacks.note("status", "")
	}
	if a.Took == 0 {
		r.call.Settle(ctx, r.attributes.response())
		return &r.call, j.fault
	}
	r.arrival = *a
	r.attributes.of = &r.arrival
	r.ends = a.At + (r.call.Decision.Delay + a.Took).Microseconds()
	heap.Push(&j.running, r)
	j.spare = new(request)
	return &r.call, j.fault
}

// settle settles the requests that end until an instant.
func (j *judge) settle(ctx context.Context, until int64) {
	for len(j.running) > 0 && j.running[0].ends <= until {
		r, ok := heap.Pop(&j.running).(*request)
		if !ok {
			return
		}
		j.now = max(j.now, r.ends)
		r.call.Settle(ctx, r.attributes.response())
	}
}

// running are requests by the instant at which they end.
type running []*request

func (r running) Len() int           { return len(r) }
func (r running) Less(i, k int) bool { return r[i].ends < r[k].ends }
func (r running) Swap(i, k int)      { r[i], r[k] = r[k], r[i] }

// Push implements [heap.Interface].
func (r *running) Push(x any) { *r = append(*r, x.(*request)) } //nolint:forcetypeassert // of this file

// Pop implements [heap.Interface].
func (r *running) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return x
}

// units returns how many units of a rule a request has used that was charged cost when it
// came.
func units(r *policy.Rule, cost int64, a *arrivals.Arrival) int64 {
	if w := r.When; w != nil && !slices.ContainsFunc(w.Status, func(s policy.Status) bool { return s.From <= a.Status && a.Status <= s.To }) {
		return 0
	}
	switch {
	case r.Cost.Of == policy.RequestBytes && a.Read >= 0:
		return a.Read
	case r.Cost.Of == policy.ResponseBytes && a.Has&arrivals.Written != 0:
		return a.Written
	case r.Cost.Of == policy.Milliseconds && a.Took > 0:
		return int64((a.Took-1)/time.Millisecond) + 1
	}
	return cost
}
