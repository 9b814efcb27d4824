// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
)

// Wrap returns a Store that asks inner and counts what it decides. Several
// stores may be wrapped; they count together.
func (m *Metrics) Wrap(inner sluice.Store) sluice.Store {
	return &store{inner: inner, metrics: m}
}

type store struct {
	inner   sluice.Store
	metrics *Metrics
	plans   plans
}

// verdicts are a limit's counters.
type verdicts struct{ allowed, denied prometheus.Counter }

// plans keeps the counters of each plan, since looking them up by their labels
// costs more than a take in memory does.
type plans struct {
	of   sync.Map // *sluice.Plan to []verdicts
	size atomic.Int64
}

// maxPlans bounds what is kept of plans that nobody uses any more, after
// reloads. Beyond it all are looked up anew.
const maxPlans = 1024

func (s *store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	start := time.Now()
	d, err := s.inner.Take(ctx, req)
	s.metrics.duration.Observe(time.Since(start).Seconds())
	s.count(&req, &d, err)
	return d, err
}

func (s *store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	start := time.Now()
	err := s.inner.TakeBatch(ctx, reqs, out)
	took := time.Since(start).Seconds()
	for i := range reqs {
		s.metrics.duration.Observe(took)
		if err != nil {
			s.count(&reqs[i], nil, err)
			continue
		}
		s.count(&reqs[i], &out[i].Decision, out[i].Err)
	}
	return err
}

func (s *store) count(req *sluice.Request, d *sluice.Decision, err error) {
	op := &s.metrics.ops[min(int(req.Op), numOps-1)]
	op.asked.Inc()
	if err != nil {
		op.failed.Inc()
		return
	}
	switch req.Op {
	case sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve:
		if v := s.binding(req, d.Binding); d.Allowed {
			v.allowed.Inc()
		} else {
			v.denied.Inc()
		}
	case sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpReset: // admit nothing
	}
}

// binding returns the counters of the limit that binds.
func (s *store) binding(req *sluice.Request, i int) verdicts {
	n := req.Plan.Len()
	if i < n {
		return s.counters(req.Plan)[max(i, 0)]
	}
	i -= n
	for j := range req.More {
		plan := req.More[j].Plan
		if i < plan.Len() {
			return s.counters(plan)[i]
		}
		i -= plan.Len()
	}
	return s.counters(req.Plan)[0] // a store that miscounts; the sum stays right
}

func (s *store) counters(p *sluice.Plan) []verdicts {
	if v, ok := s.plans.of.Load(p); ok {
		return v.([]verdicts) //nolint:forcetypeassert // nothing else is ever stored
	}
	v := make([]verdicts, p.Len())
	for i := range v {
		limit := p.Term(i).Name
		v[i] = verdicts{
			allowed: s.metrics.decisions.WithLabelValues(p.Scope(), limit, "allowed"),
			denied:  s.metrics.decisions.WithLabelValues(p.Scope(), limit, "denied"),
		}
	}
	if s.plans.size.Add(1) > maxPlans {
		s.plans.of.Clear()
		s.plans.size.Store(1)
	}
	s.plans.of.Store(p, v)
	return v
}
