// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Middleware limits the requests to a handler under one policy. It does not change, is safe
// for concurrent use and holds no state of its own, which is in the store. For another
// policy make another Middleware.
type Middleware struct {
	opts      Options
	evaluator *evaluate.Evaluator
	answers   ruleAnswers
	admission clientip.Admission
	clients   *clientip.Finder // groups clients by network
	own       *ownLimits       // nil if clients may not ask
	items     limitItems
	log       *sampledlog.Log
	requests  sync.Pool // of *Request
}

// Limit returns a Middleware that charges each request to its key under limits, as the
// simple case of [New]. The scope names the budget and the rule. The error joins all faults.
func Limit(store sluice.Store, scope string, key policy.Part, limits ...sluice.Limit) (*Middleware, error) {
	return New(Options{Store: store, Rules: []policy.Rule{policy.NewRule(scope, key, limits...)}})
}

// New returns a Middleware, or an error that joins all faults of o.
func New(o Options) (*Middleware, error) {
	m := &Middleware{log: &sampledlog.Log{Logger: slog.Default(), Part: "httplimit"}}
	clients, err := clientip.New(clientip.Options{})
	if err != nil {
		return nil, fmt.Errorf("httplimit: %w", err)
	}
	var all []error
	if err := o.Fields.check(); err != nil {
		all = append(all, fmt.Errorf("httplimit: Fields: %w", err))
	}
	if p, err := policy.Compile(o.Rules); err == nil && o.Policy == nil && len(o.Rules) > 0 {
		o.Policy, o.Rules = p, nil // else evaluate.New reports the faults
	}
	of := evaluate.Options{
		Name: "httplimit", Store: o.Store, Slots: o.Slots, Rules: o.Rules, Policy: o.Policy, Overrides: o.Overrides,
		Trusted: o.Trusted, ClientHeader: o.ClientHeader, ClientHops: o.ClientHops, Allow: o.Allow, Deny: o.Deny,
		MaxWait: o.MaxWait, Queue: o.Queue, OnDelay: m.onHold, OnError: m.onError, Now: o.Now,
	}
	if o.OnDecision != nil {
		of.OnDecision = m.onDecision
	}
	evaluator, err := evaluate.New(of)
	if all = append(all, err); errors.Join(all...) != nil {
		return nil, errors.Join(all...)
	}
	if o.Fields == 0 {
		o.Fields = Draft11
	}
	if o.ReadAhead == nil {
		o.ReadAhead = new(ReadAhead)
	}
	m.opts, m.evaluator, m.answers, m.clients = o, evaluator, newRuleAnswers(o.Policy), clients
	m.admission = clientip.NewAdmission(o.Allow, o.Deny)
	if o.OwnLimits != nil {
		if m.own, err = newOwnLimits(o.Policy, &o, clients); err != nil {
			return nil, err
		}
	}
	m.requests.New = func() any { return m.newRequest() }
	return m, nil
}

// client returns the address of a request's client.
func (m *Middleware) client(r *http.Request) netip.Addr {
	return m.evaluator.Client(clientip.Peer(r.RemoteAddr), func(name string) []string { return r.Header[name] })
}

// verifies reports whether tokens are used in decisions.
func (m *Middleware) verifies() bool { return m.opts.Claims != nil || m.opts.TokenRequired }

// skips reports whether a request is passed on undecided.
func (m *Middleware) skips(r *http.Request) bool { return m.opts.Skip != nil && m.opts.Skip(r) }

// Wrap returns a handler that passes allowed requests to next and answers all others. It
// blocks while a request is delayed. One Middleware may wrap any number of handlers, which
// then share its budgets. It panics if next is nil.
//
// A response that is not written through next's writer counts under every When: a framework
// that hides the writer from its handlers must settle by [Middleware.Decide].
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("httplimit: wrap: next is nil; pass the handler that is to be limited, such as an http.ServeMux") //nolint:forbidigo // a mistake of the program's, and there is no error to return
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.skips(r) {
			next.ServeHTTP(w, r)
			return
		}
		q := m.requests.Get().(*Request) //nolint:forcetypeassert // nothing else is ever stored
		defer m.release(q)
		q.decide(w, r)
		q.serve(next) //nolint:contextcheck // it takes the context of the request
	})
}

// release clears q and keeps it for another request. A request that is yet to be settled
// belongs to the caller that settles it.
func (m *Middleware) release(q *Request) {
	if q.settlement.Taken() {
		return
	}
	q.end()
	if m.opts.OnEnd != nil { // else the summary was never filled
		q.summary = Summary{}
	}
	m.requests.Put(q)
}

// event returns an Event of the Middleware.
func (m *Middleware) event(of *attributes, e *evaluate.Event, status int) Event {
	return Event{Event: *e, Status: status, Request: of, answers: m.answers}
}

// onDecision reports a decision.
func (m *Middleware) onDecision(_ context.Context, a policy.Attributes, e *evaluate.Event) {
	if of, ok := a.(*attributes); ok && m.opts.OnDecision != nil {
		m.opts.OnDecision(of.of.r, m.event(of, e, m.answers.status(e)))
	}
}

// onError reports an error of the evaluator, with the request as it arrived, as a renewal of
// slots may fail while the body of the request is replaced. It logs errors without a request,
// such as that of canceling an instant.
func (m *Middleware) onError(ctx context.Context, a policy.Attributes, err error) {
	if of, ok := a.(*attributes); ok {
		m.report(of.Request(), err)
		return
	}
	m.log.Error(ctx, "rate limit store failed", err)
}

// report reports an error of the store.
func (m *Middleware) report(r *http.Request, err error) {
	if m.opts.OnError != nil {
		m.opts.OnError(r, err)
		return
	}
	m.log.Error(r.Context(), "rate limit store failed", err)
}
