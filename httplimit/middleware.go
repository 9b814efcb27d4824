// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/sampledlog"
	"github.com/sluicegate/sluice/policy"
)

// Middleware limits the requests to a handler under one policy. It does not
// change, is safe for concurrent use and holds no state of its own: that is the
// store's. For another policy make another Middleware.
type Middleware struct {
	opts     Options
	judge    policy.Evaluator
	finder   *clientip.Finder
	clients  clientip.Admission
	names    names
	log      *sampledlog.Log
	requests sync.Pool // of *Request
}

// Limit returns a Middleware that charges each request to its key under limits:
// the simple case of [New]. The scope says whose budget this is, and is the name
// of the rule. All faults are returned at once.
func Limit(store sluice.Store, scope string, key Key, limits ...sluice.Limit) (*Middleware, error) {
	return New(Options{Store: store, Rules: []policy.Rule{policy.NewRule(scope, key, limits...)}})
}

// New returns a Middleware, or every fault of o joined.
func New(o Options) (*Middleware, error) {
	var all []error
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf("httplimit: "+format, args...)) }
	if o.Store == nil {
		fault("Store is nil; make one, such as memstore.New(memstore.Options{})")
	}
	switch {
	case o.Policy != nil && len(o.Rules) > 0:
		fault("Rules and Policy: give one of them")
	case o.Policy == nil && len(o.Rules) == 0:
		fault("Rules: there are none; make one, such as policy.NewRule(\"api\", policy.IP(), sluice.PerMinute(100))")
	case o.Policy == nil:
		compiled, err := policy.Compile(o.Rules)
		if err != nil {
			fault("Rules: %w", err)
		}
		o.Policy = compiled
	}
	if o.MaxWait < 0 || o.MaxWait > sluice.MaxWait {
		fault("MaxWait: %v must be 0 to %v", o.MaxWait, sluice.MaxWait)
	}
	if err := o.Fields.check(); err != nil {
		fault("Fields: %w", err)
	}
	finder, err := clientip.New(clientip.Options{Trusted: o.Trusted, Header: o.ClientHeader})
	if err != nil {
		fault("client address: %w", err)
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	if o.Fields == 0 {
		o.Fields = Draft11
	}
	if o.Queue == nil {
		o.Queue = NewQueue(DefaultQueue)
	}
	m := &Middleware{
		opts: o, finder: finder, clients: clientip.NewAdmission(o.Allow, o.Deny),
		log: &sampledlog.Log{Logger: slog.Default(), Part: "httplimit"},
	}
	m.requests.New = func() any { return new(Request) }
	m.judge = policy.Evaluator{Policy: o.Policy, Store: o.Store, Slots: o.Slots, MaxWait: o.MaxWait, Now: o.Now}
	if o.Now == nil {
		m.judge.Now = time.Now
	}
	return m, nil
}

// Admits reports whether Allow and Deny let a client in. The zero Addr is one
// whose address is not known.
func (m *Middleware) Admits(client netip.Addr) bool { return m.clients.Admits(client) }

// Wrap returns a handler that passes on to next what the limits allow and
// answers the rest. It blocks as long as a request is held back. One Middleware
// may wrap any number of handlers, which then share its budgets. It panics if
// next is nil.
//
// A response that nobody wrote through the writer that next is given counts,
// whatever statuses a rule counts: a framework that has hidden the writer from its
// handlers settles by [Middleware.Decide].
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("httplimit: wrap: next is nil; pass the handler that is to be limited, such as an http.ServeMux") //nolint:forbidigo // a mistake of the program's, and there is no error to return
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.opts.Skip != nil && m.opts.Skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		q, ok := m.requests.Get().(*Request)
		if !ok {
			q = new(Request)
		}
		defer m.release(q)
		q.decide(m, w, r)
		q.serve(next) //nolint:contextcheck // it takes the context of the request
	})
}

// release keeps q for another request, without what belongs to this one.
func (m *Middleware) release(q *Request) {
	q.end()
	m.requests.Put(q)
}

// report hands an error of the store to whoever wants it.
func (m *Middleware) report(r *http.Request, err error) {
	switch {
	case err == nil:
	case m.opts.OnError != nil:
		m.opts.OnError(r, err)
	default:
		m.log.Error(r.Context(), "rate limit store failed", err)
	}
}
