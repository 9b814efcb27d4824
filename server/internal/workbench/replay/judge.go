// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
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
	lacks     map[lack]bool
	statuses  bool // some rule counts responses by their status
	fault     error
	spare     *request
	running   []*request // by the instant at which they end
}

// request is a request that is decided and perhaps runs.
type request struct {
	call    evaluate.Call
	of      attributes
	arrival arrivals.Arrival // if it runs
	ends    int64
}

func newJudge(r *Rules) (j *judge, err error) {
	j = &judge{lacks: make(map[lack]bool), spare: new(request)}
	now := func() time.Time { return time.UnixMicro(j.now) }
	j.store = memstore.New(memstore.Options{MaxKeys: r.MaxKeys, Now: now})
	j.statuses = slices.ContainsFunc(r.Policy.Rules(), func(r policy.Rule) bool { return r.When != nil })
	j.evaluator, err = evaluate.New(evaluate.Options{
		Name: "replay", Policy: r.Policy, Store: j.store, Now: now, CallerWaits: true, Allow: r.Allow, Deny: r.Deny,
		OnError: func(_ context.Context, _ policy.Attributes, err error) { j.fault = err },
	})
	return j, err
}

// decide settles the responses until an arrival, which is not before the last one, and decides
// it. The call is valid until the next decision. The request runs for as long as the log says,
// or ends at once if the log does not say it.
func (j *judge) decide(ctx context.Context, a *arrivals.Arrival) (*evaluate.Call, error) {
	j.settle(ctx, a.At)
	r := j.spare
	r.of.Arrival, r.of.lacks = a, j.lacks
	j.evaluator.Decide(ctx, &r.of, &r.call)
	switch {
	case !r.call.Settles():
	case a.Took == 0:
		r.call.Settle(ctx, r.of.response())
	default:
		r.arrival, r.ends, j.spare = *a, a.At+(r.call.Decision.Delay+a.Took).Microseconds(), new(request)
		r.of.Arrival = &r.arrival
		at, _ := slices.BinarySearchFunc(j.running, r, func(x, y *request) int { return cmp.Compare(x.ends, y.ends) })
		j.running = slices.Insert(j.running, at, r)
	}
	if j.statuses {
		r.of.needs(arrivals.Status, "status", "")
	}
	return &r.call, j.fault
}

// settle settles the requests that end until an instant, and makes it the present.
func (j *judge) settle(ctx context.Context, until int64) {
	for len(j.running) > 0 && j.running[0].ends <= until {
		r := j.running[0]
		j.running[0], j.running, j.now = nil, j.running[1:], r.ends
		r.call.Settle(ctx, r.of.response())
	}
	j.now = until
}

// units returns the units of a rule that a request has used in the end. cost is its charge on
// arrival.
func units(r *policy.Rule, cost int64, a *arrivals.Arrival) int64 {
	switch w := r.When; {
	case w != nil && !slices.ContainsFunc(w.Status, func(s policy.Status) bool { return s.From <= a.Status && a.Status <= s.To }):
		return 0
	case r.Cost.Of == policy.RequestBytes && a.Read >= 0:
		return a.Read
	case r.Cost.Of == policy.ResponseBytes && a.Has&arrivals.Written != 0:
		return a.Written
	case r.Cost.Of == policy.Milliseconds && a.Took > 0:
		return (a.Took + time.Millisecond - 1).Milliseconds()
	}
	return cost
}
