// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// charged is what a request is charged, and under which rules.
type charged struct {
	sluice.Charge
	more  []sluice.Charge
	rules [sluice.MaxCharges]uint8 // of each charge
	n     int                      // charges
}

func (c *charged) charge(i int) sluice.Charge {
	if i == 0 {
		return c.Charge
	}
	return c.more[i-1]
}

// request returns what a Store is asked.
func (c *charged) request(op sluice.Op) sluice.Request {
	return sluice.Request{Op: op, Charge: c.Charge, More: c.more}
}

func (m *Middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	var c charged
	if err := m.charge(&c, r); err != nil {
		m.undecided(w, r, next, err)
		return
	}
	if c.n == 0 { // every rule is skipped for lack of its key
		next.ServeHTTP(w, r)
		return
	}
	req := c.request(sluice.OpTake)
	if n := req.Limits(); n > 1 {
		req.Outcomes = make([]sluice.Outcome, n)
	}
	m.allowWait(r, &req)
	d, err := m.opts.Store.Take(r.Context(), req)
	if err != nil {
		m.undecided(w, r, next, err)
		return
	}
	e := Event{Decision: d}
	e.Limit, e.Charge = c.binding(d.Binding)
	if d.Allowed {
		m.allowed(w, r, next, &c, e)
		return
	}
	e.Violated = c.violated(req.Outcomes, d.Binding)
	if m.opts.Shadow {
		e.Verdict = Shadowed
		m.decided(r, e)
		next.ServeHTTP(w, r)
		return
	}
	e.Verdict, e.Status = Denied, http.StatusTooManyRequests
	m.opts.Fields.setFields(w.Header(), m.policyOf(&c), e.Limit, d)
	m.refuse(w, r, e)
}

// charge finds out what r is charged. An error means that it cannot be.
func (m *Middleware) charge(c *charged, r *http.Request) error {
	for i := range m.rules {
		rule := &m.rules[i]
		key, err := rule.Key.Of(r)
		if err != nil {
			if rule.Missing == MissingRefused || !isMissing(err) {
				return err
			}
			if rule.Missing == MissingSkipped {
				continue
			}
			key = "" // the shared one: a key that is there is never empty
		}
		cost := int64(1)
		if rule.Cost.Before != nil {
			if cost, err = rule.Cost.Before(r); err != nil {
				return err
			}
		}
		charge := sluice.Charge{Plan: rule.Plan, Key: key, Cost: cost}
		if c.n == 0 {
			c.Charge = charge
		} else {
			if c.more == nil {
				c.more = make([]sluice.Charge, 0, len(m.rules)-1)
			}
			c.more = append(c.more, charge)
		}
		c.rules[c.n] = uint8(i)
		c.n++
	}
	return nil
}

// allowWait sets how long the request may be held back.
func (m *Middleware) allowWait(r *http.Request, req *sluice.Request) {
	if m.opts.MaxWait > 0 {
		req.Op, req.MaxWait = sluice.OpReserve, m.opts.MaxWait
	} else if !m.queues {
		return
	}
	// What would be served after its deadline is better denied at once.
	if deadline, ok := r.Context().Deadline(); ok {
		left := max(time.Until(deadline), time.Microsecond)
		if req.MaxWait == 0 || left < req.MaxWait {
			req.MaxWait = min(left, sluice.MaxWait)
		}
	}
}

// binding returns the limit that a Decision names and the charge it is of.
func (c *charged) binding(i int) (*sluice.Term, sluice.Charge) {
	for k := range c.n {
		charge := c.charge(k)
		if i < charge.Plan.Len() {
			return charge.Plan.Term(i), charge
		}
		i -= charge.Plan.Len()
	}
	return c.Plan.Term(0), c.Charge // no Store names a limit that is not there
}

// violated returns the names of the limits that denied, the binding one first.
func (c *charged) violated(outcomes []sluice.Outcome, binding int) []string {
	t, _ := c.binding(binding)
	all := []string{t.Name}
	for i := range outcomes {
		if !outcomes[i].Allowed && i != binding {
			t, _ := c.binding(i)
			all = append(all, t.Name)
		}
	}
	return all
}

// policyOf returns RateLimit-Policy for the rules charged.
func (m *Middleware) policyOf(c *charged) string {
	if c.n == len(m.rules) {
		return m.policy
	}
	items := make([]string, c.n)
	for i := range items {
		items[i] = m.rules[c.rules[i]].policy
	}
	return strings.Join(items, ", ")
}

// allowed passes on what a store allowed, once its delay is over.
func (m *Middleware) allowed(w http.ResponseWriter, r *http.Request, next http.Handler, c *charged, e Event) {
	if m.opts.Shadow {
		m.decided(r, e)
		m.run(w, r, next, c, e.Decision)
		return
	}
	d := e.Decision
	if d.Delay > 0 {
		if err := wait(r.Context(), d.Delay); err != nil {
			undo := c.request(sluice.OpRefund)
			undo.At, undo.Due = d.At, d.Due
			m.settle(r, []sluice.Request{undo})
			e.Verdict, e.Status, e.Err = Abandoned, http.StatusServiceUnavailable, err
			m.refuse(w, r, e)
			return
		}
		d.ResetAfter = max(d.ResetAfter-d.Delay, 0)
	}
	m.decided(r, e)
	m.opts.Fields.setFields(w.Header(), m.policyOf(c), e.Limit, d)
	m.run(w, r, next, c, e.Decision)
}

// wait blocks for d, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// undecided deals with a request that no decision was made on.
func (m *Middleware) undecided(w http.ResponseWriter, r *http.Request, next http.Handler, err error) {
	var bad *RequestError
	var cannot *sluice.RequestError
	e := Event{Err: err}
	switch {
	case errors.As(err, &bad) || errors.As(err, &cannot):
		e.Verdict, e.Status = Refused, http.StatusBadRequest
	case r.Context().Err() != nil:
		e.Verdict, e.Status = Abandoned, http.StatusServiceUnavailable
	case m.opts.Failure == FailClosed:
		m.report(r, err)
		e.Verdict, e.Status = FailedClosed, http.StatusServiceUnavailable
	default:
		m.report(r, err)
		e.Verdict = FailedOpen
	}
	if m.opts.Shadow {
		e.Status = 0
	}
	if e.Status != 0 {
		m.refuse(w, r, e)
		return
	}
	m.decided(r, e)
	next.ServeHTTP(w, r)
}

func (m *Middleware) decided(r *http.Request, e Event) {
	if m.opts.OnDecision != nil {
		m.opts.OnDecision(r, e)
	}
}

// refuse answers a request that is not passed on.
func (m *Middleware) refuse(w http.ResponseWriter, r *http.Request, e Event) {
	m.decided(r, e)
	if m.opts.Refuse != nil {
		setRetryAfter(w.Header(), &e)
		m.opts.Refuse(w, r, e)
		return
	}
	WriteProblem(w, r, e)
}
