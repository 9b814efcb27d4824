// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
)

// Middleware limits the requests to a handler. It is safe for concurrent use
// and holds no state of its own: that is the store's.
type Middleware struct {
	opts   Options
	rules  []rule
	policy string // RateLimit-Policy with every rule
	queues bool   // some limit delays what it allows
	errors errorLog
}

// rule is a Rule with what follows from it.
type rule struct {
	Rule
	policy  string // its part of RateLimit-Policy
	settles bool   // something is to be done after the response
}

// Limit returns a Middleware that charges each request 1 to its key under
// limits: the simple case of [New]. The scope says whose budget this is. All
// faults are returned at once.
func Limit(store sluice.Store, scope string, key Key, limits ...sluice.Limit) (*Middleware, error) {
	plan, err := sluice.Compile(scope, limits...)
	if err != nil {
		var missing error
		if store == nil {
			missing = errNoStore
		}
		return nil, errors.Join(missing, err, key.Err())
	}
	return New(Options{Store: store, Rules: []Rule{{Plan: plan, Key: key}}})
}

var errNoStore = errors.New("httplimit: Store is nil; make one, such as memstore.New(memstore.Options{})")

// New returns a Middleware, or every fault of o joined.
func New(o Options) (*Middleware, error) {
	m := &Middleware{opts: o}
	var all []error
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf("httplimit: "+format, args...)) }
	if o.Store == nil {
		all = append(all, errNoStore)
	}
	if n := len(o.Rules); n < 1 || n > sluice.MaxCharges {
		fault("%d Rules; there must be 1 to %d", n, sluice.MaxCharges)
	}
	if o.Failure >= failures {
		fault("Failure: %d is neither FailOpen nor FailClosed", o.Failure)
	}
	if o.MaxWait < 0 || o.MaxWait > sluice.MaxWait {
		fault("MaxWait: %v must be 0 to %v", o.MaxWait, sluice.MaxWait)
	}
	switch f := o.Fields; {
	case f >= fieldsEnd:
		fault("Fields: %#x has bits without a meaning", uint8(f))
	case f&NoFields != 0 && f != NoFields:
		fault("Fields: NoFields does not go with others")
	case f&XRateLimit != 0 && f&XRateLimitEpoch != 0:
		fault("Fields: XRateLimit and XRateLimitEpoch write the same fields; choose one")
	case f == 0:
		m.opts.Fields = Draft11
	}
	seen := make(map[string]string)
	var policies []string
	for i, r := range o.Rules {
		for _, err := range checkRule(r, i+1, seen) {
			fault("rule %d: %w", i+1, err)
		}
		if len(all) > 0 {
			continue
		}
		m.rules = append(m.rules, newRule(r))
		m.queues = m.queues || queues(r.Plan)
		policies = append(policies, m.rules[i].policy)
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	m.policy = strings.Join(policies, ", ")
	return m, nil
}

func newRule(r Rule) rule {
	if r.Cost.Before == nil && r.Cost.After == nil && r.Plan.Term(0).Unit == sluice.Bytes {
		r.Cost = ResponseBytes()
	}
	return rule{Rule: r, policy: policyItems(r.Plan), settles: r.Cost.After != nil || r.RefundOn != nil}
}

// queues reports whether a limit of p may allow a request only after a delay.
func queues(p *sluice.Plan) bool {
	for i := range p.Len() {
		if t := p.Term(i); t.Algorithm == sluice.LeakyBucket && t.DelayAfter < t.Burst {
			return true
		}
	}
	return false
}

// checkRule returns the faults of the n-th rule. seen holds which scopes and
// names the ones before have.
func checkRule(r Rule, n int, seen map[string]string) (all []error) {
	fault := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if err := r.Key.Err(); err != nil {
		fault("Key: %w", err)
	}
	if r.Cost.fault != nil {
		fault("Cost: %w", r.Cost.fault)
	}
	if r.Missing >= missingKeys {
		fault("Missing: %d is none of MissingRefused, MissingShared and MissingSkipped", r.Missing)
	}
	if r.Plan == nil {
		fault("Plan is nil; make one with sluice.Compile")
		return all
	}
	if other, taken := seen["scope "+r.Plan.Scope()]; taken {
		fault("Plan: rule %s has the scope %q too, so that both may charge one key; give each its own", other, r.Plan.Scope())
	}
	seen["scope "+r.Plan.Scope()] = strconv.Itoa(n)
	for i := range r.Plan.Len() {
		t := r.Plan.Term(i)
		if other, taken := seen["limit "+t.Name]; taken {
			fault("Plan: rule %s has a limit %q too, and a client could not tell them apart; name one of them", other, t.Name)
		}
		seen["limit "+t.Name] = strconv.Itoa(n)
		if t.Unit != r.Plan.Term(0).Unit {
			fault("Plan: the limits %q and %q count %v and %v, but get one cost; give each a rule of its own",
				r.Plan.Term(0).Name, t.Name, r.Plan.Term(0).Unit, t.Unit)
		}
	}
	return all
}

// Wrap returns a handler that passes on to next what the limits allow and
// answers the rest. One Middleware may wrap any number of handlers, which then
// share its budgets. It panics if next is nil.
func (m *Middleware) Wrap(next http.Handler) http.Handler {
	if next == nil {
		panic("httplimit: wrap: next is nil; pass the handler that is to be limited, such as an http.ServeMux") //nolint:forbidigo // a mistake of the program's, and there is no error to return
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if m.opts.Skip != nil && m.opts.Skip(r) {
			next.ServeHTTP(w, r)
			return
		}
		m.serve(w, r, next)
	})
}

// report hands an error of the store to whoever wants it.
func (m *Middleware) report(r *http.Request, err error) {
	if m.opts.OnError != nil {
		m.opts.OnError(r, err)
		return
	}
	m.errors.log(r, err, time.Now())
}
