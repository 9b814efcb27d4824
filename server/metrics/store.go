// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluicegate/sluice"
)

// Wrap returns a Store that asks inner and counts what it decides, and a
// [sluice.SlotStore] if inner is one. Several stores may be wrapped; they count
// together.
func (m *Metrics) Wrap(inner sluice.Store) sluice.Store {
	return &store{inner: inner, metrics: m, plans: new(sluice.Prepared[[]verdicts])}
}

type store struct {
	inner   sluice.Store
	metrics *Metrics
	// plans keeps the counters of each plan, since looking them up by their
	// labels costs more than a take in memory does.
	plans *sluice.Prepared[[]verdicts]
}

// verdicts are a limit's counters.
type verdicts struct{ allowed, denied prometheus.Counter }

func (s *store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	start := time.Now()
	d, err := s.inner.Take(ctx, req)
	s.metrics.duration.Observe(time.Since(start).Seconds())
	s.count(&req, &d, err)
	return d, err
}

func (s *store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	start := time.Now()
	err := sluice.TakeBatch(ctx, s.inner, reqs, out)
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

// Slot passes req on; slots have no counters.
func (s *store) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	return sluice.PassSlot(ctx, s.inner, req)
}

func (s *store) count(req *sluice.Request, d *sluice.Decision, err error) {
	op := &s.metrics.ops[min(int(req.Op), numOps-1)]
	op.asked.Inc()
	if err != nil {
		op.failed.Inc()
		return
	}
	if req.Slot.Denies() {
		return // no limit has
	}
	switch req.Op {
	case sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve:
		c, term := req.ChargeAt(d.Binding)
		if v := s.counters(c.Plan)[term]; d.Allowed {
			v.allowed.Inc()
		} else {
			v.denied.Inc()
		}
	case sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpReset, sluice.OpAdd, sluice.OpConvert: // admit nothing
	}
}

func (s *store) counters(p *sluice.Plan) []verdicts {
	v, ok := s.plans.Of(p)
	if ok {
		return v
	}
	v = make([]verdicts, p.Len())
	for i := range v {
		limit := p.Term(i).Name
		v[i] = verdicts{
			allowed: s.metrics.decisions.WithLabelValues(p.Scope(), limit, "allowed"),
			denied:  s.metrics.decisions.WithLabelValues(p.Scope(), limit, "denied"),
		}
	}
	s.plans.Keep(p, v)
	return v
}
