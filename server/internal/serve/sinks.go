// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"context"
	"log/slog"
	"time"

	limitmetrics "github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/tally"
	"github.com/sluicegate/sluice/server/internal/token"
)

// sinks returns the sinks of a configuration's requests, in order.
func (s *runtime) sinks(g *snapshot) []front.Sink {
	return []front.Sink{
		g.proxies, s.trace,
		talliedRequests{&s.tally},
		statedCosts{&s.tally, s.log, s.now},
		measuredRequests{s.counts},
		s.logs.sink(g.config, g.decisions),
	}
}

// talliedRequests counts requests for the page.
type talliedRequests struct{ tally *tally.Tally }

// Record implements [front.Sink].
func (t talliedRequests) Record(_ context.Context, r *front.Record) {
	switch {
	case !r.Ended:
		cause := tally.Cause{Status: r.Status}
		if r.Event.Verdict == evaluate.Refused {
			cause.Text = token.Cause(r.Event.Err)
		}
		t.tally.Count(&r.Event, cause)
	case r.Upstream != nil && r.Event.Verdict.Passes():
		t.tally.End(r.Upstream.Status, r.Upstream.Err)
	}
}

// statedCosts records whether responses state their costs, and logs rules whose do not.
type statedCosts struct {
	tally *tally.Tally
	log   *slog.Logger
	now   func() time.Time
}

// Record implements [front.Sink].
func (c statedCosts) Record(_ context.Context, r *front.Record) {
	v := r.Event.Evaluated
	if !r.Ended || v == nil || r.Upstream == nil || r.Upstream.Err != nil || !r.Event.Verdict.Passes() {
		return
	}
	for _, rule := range v.Stated {
		c.tally.Stated(rule.Name, true, c.now())
	}
	for _, rule := range v.Unstated {
		if c.tally.Stated(rule.Name, false, c.now()) {
			c.log.Warn("a response has no usable header field of its cost: the estimate stays", slog.String("rule", rule.Name), slog.String("header", rule.Cost.Header))
		}
	}
}

// measuredRequests counts requests for Prometheus.
type measuredRequests struct{ counts *limitmetrics.Metrics }

// Record implements [front.Sink].
func (m measuredRequests) Record(_ context.Context, r *front.Record) {
	if !r.Ended {
		m.counts.Count(&r.Event)
		return
	}
	if !r.HTTP() { // there is no response
		return
	}
	o := limitmetrics.Outcome{
		Event: &r.Event, Route: r.Route, Status: r.Status, Took: r.Took, Upstream: r.Upstream,
		Trace: r.Request.Header("Traceparent"), Now: r.At.Add(r.Took),
	}
	if r.Own {
		o.Event = nil
	}
	m.counts.End(&o)
}
