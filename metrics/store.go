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

// Wrap returns a Store that calls inner, and counts and times its operations under the label
// store. It is a [sluice.SlotStore] if inner is one. Stores of one name count together. It
// adds about 0.2 µs to a take, and no allocation.
func (m *Metrics) Wrap(inner sluice.Store, name string) sluice.Store {
	s := &store{inner: inner, metrics: m, ops: m.operations(name), made: time.Now()}
	if _, ok := inner.(sluice.SlotStore); ok {
		return &slotStore{s}
	}
	return s
}

// The operations of slots follow those of units, and an unknown one comes last.
const (
	slotOps = int(sluice.OpExtend) + 1
	unknown = slotOps + int(sluice.SlotPeek) + 1
	numOps  = unknown + 1
)

var slotNames = [...]string{
	sluice.SlotAcquire: "slot-acquire", sluice.SlotRenew: "slot-renew", sluice.SlotRelease: "slot-release", sluice.SlotPeek: "slot-peek",
}

// operations are the operations of one store.
type operations [numOps]operation

type operation struct {
	asked, failed prometheus.Counter
	took          histogramOf
}

func (m *Metrics) operations(store string) *operations {
	store = label(store)
	m.mu.Lock()
	defer m.mu.Unlock()
	if ops := m.stores[store]; ops != nil {
		return ops
	}
	ops := new(operations)
	for i := range ops {
		name := "unknown"
		switch {
		case i < slotOps:
			name = sluice.Op(i).String()
		case i < unknown:
			name = slotNames[i-slotOps]
		}
		ops[i].asked, ops[i].failed = m.asked.WithLabelValues(store, name), m.failed.WithLabelValues(store, name)
		ops[i].took.of = func() prometheus.Observer { return m.took.WithLabelValues(store, name) }
	}
	m.stores[store] = ops
	return ops
}

func (o *operations) of(req *sluice.Request) *operation {
	if int(req.Op) < slotOps {
		return &o[req.Op]
	}
	return &o[unknown]
}

// operated is an operation that is still to be counted.
type operated struct {
	of      *operation
	took    time.Duration
	failed  bool
	verdict prometheus.Counter // nil: the operation admits or denies nothing
}

// count implements [counted].
func (o operated) count() {
	o.of.asked.Inc()
	o.of.took.observe(o.took)
	if o.failed {
		o.of.failed.Inc()
	}
	if o.verdict != nil {
		o.verdict.Inc()
	}
}

// maxPlans is the most plans whose counters a store holds: more than a policy has rules.
const maxPlans = 1 << 17

type store struct {
	inner   sluice.Store
	metrics *Metrics
	ops     *operations
	made    time.Time
	// plans holds the counters of each plan, since looking them up by label costs more than
	// a take in memory.
	plans  sync.Map // *sluice.Plan to []verdicts
	nPlans atomic.Int64
	slots  sync.Map // slotLimit to *verdicts, one for each limit of requests in flight
}

// verdicts are the counters of a limit.
type verdicts struct{ allowed, denied prometheus.Counter }

func (v *verdicts) of(allowed bool) prometheus.Counter {
	if allowed {
		return v.allowed
	}
	return v.denied
}

func verdictsOf(of *prometheus.CounterVec, scope, limit string) verdicts {
	scope, limit = label(scope), label(limit)
	return verdicts{allowed: of.WithLabelValues(scope, limit, "allowed"), denied: of.WithLabelValues(scope, limit, "denied")}
}

// Take implements [sluice.Store].
func (s *store) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	start := time.Since(s.made) // at half the cost of time.Now
	d, err := s.inner.Take(ctx, req)
	s.count(&req, &d, time.Since(s.made)-start, err)
	return d, err
}

// TakeBatch implements [sluice.BatchStore].
func (s *store) TakeBatch(ctx context.Context, reqs []sluice.Request, out []sluice.Result) error {
	start := time.Now()
	err := sluice.TakeBatch(ctx, s.inner, reqs, out)
	took := time.Since(start)
	for i := range reqs {
		if err != nil {
			s.count(&reqs[i], nil, took, err)
			continue
		}
		s.count(&reqs[i], &out[i].Decision, took, out[i].Err)
	}
	return err
}

func (s *store) count(req *sluice.Request, d *sluice.Decision, took time.Duration, err error) {
	o := operated{of: s.ops.of(req), took: took, failed: err != nil}
	if err == nil {
		o.verdict = s.verdictOf(req, d)
	}
	s.metrics.pending.add(o)
}

// verdictOf returns the counter of a limit's decision, nil if no limit decided. It counts the
// decision of a slot itself.
func (s *store) verdictOf(req *sluice.Request, d *sluice.Decision) prometheus.Counter {
	switch req.Op {
	case sluice.OpTake, sluice.OpTakeUpTo, sluice.OpReserve:
	case sluice.OpPeek, sluice.OpRefund, sluice.OpCharge, sluice.OpReset, sluice.OpAdd, sluice.OpConvert, sluice.OpSettle, sluice.OpExtend: // admit nothing
		return nil
	default:
		return nil
	}
	denies := req.Slot != nil && req.Slot.Decision.RetryAfter > 0
	if slot := req.Slot; slot != nil && (denies || d.Allowed) {
		s.countSlot(&slot.SlotRequest, !denies)
	}
	if denies {
		return nil
	}
	c, term := req.ChargeAt(d.Binding)
	return s.counters(c.Plan)[term].of(d.Allowed)
}

func (s *store) counters(p *sluice.Plan) []verdicts {
	if known, ok := s.plans.Load(p); ok {
		return known.([]verdicts) //nolint:forcetypeassert // it holds no other type
	}
	v := make([]verdicts, p.Len())
	for i := range v {
		v[i] = verdictsOf(s.metrics.decisions, p.Scope(), p.Term(i).Name)
	}
	if _, known := s.plans.LoadOrStore(p, v); !known && s.nPlans.Add(1) > maxPlans {
		s.plans.Clear() // reloads have replaced most of them
		s.nPlans.Store(0)
	}
	return v
}

// slotLimit names a limit of requests in flight.
type slotLimit struct{ scope, limit string }

func (s *store) countSlot(req *sluice.SlotRequest, allowed bool) {
	of := slotLimit{req.Scope, req.Limit.Name}
	v, ok := s.slots.Load(of)
	if !ok {
		made := verdictsOf(s.metrics.slots, of.scope, of.limit)
		v, _ = s.slots.LoadOrStore(of, &made)
	}
	if v, ok := v.(*verdicts); ok {
		v.of(allowed).Inc()
	}
}

// slotStore is a store with slots.
type slotStore struct{ *store }

// Slot implements [sluice.SlotStore].
func (s *slotStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	start := time.Now()
	var d sluice.SlotDecision
	err := sluice.ErrNoSlots
	if inner, ok := s.inner.(sluice.SlotStore); ok {
		d, err = inner.Slot(ctx, req)
	}
	op := unknown
	if req.Op <= sluice.SlotPeek {
		op = slotOps + int(req.Op)
	}
	s.metrics.pending.add(operated{of: &s.ops[op], took: time.Since(start), failed: err != nil})
	if err == nil && req.Op == sluice.SlotAcquire {
		s.countSlot(&req, d.Allowed)
	}
	return d, err
}
