// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package api is the front of JSON over HTTP: it answers whether described requests may run,
// for programs in any language. openapi.json describes it.
//
// The files, in the order in which to read them:
//
//   - api.go: the front and its calls
//   - tokens.go: tokens and their rights
//   - request.go: the body of a call, and its faults
//   - decide.go: decisions, by rules or by limits that a request brings
//   - own.go: limits that requests bring, and slots
//   - answer.go: answers and problems
package api

import (
	"cmp"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
	"github.com/sluicegate/sluice/server/internal/httpserver"
)

// name is the kind of this front.
const name = "api"

// atOnce is how many requests of a batch are decided at once on a shared store.
const atOnce = 64

//go:embed openapi.json
var document []byte

// Document returns the description of the API, in OpenAPI 3.1.
func Document() []byte { return slices.Clone(document) }

// refusal is why a call was not answered.
type refusal uint8

const (
	refusedToken refusal = iota
	refusedOperation
	refusedBody
	refusedFaults
	refusedLimits
	refusals
)

var refusalNames = [refusals]string{"token", "operation", "body", "faults", "limits"}

// Options are the options of an [API]. All but Now are required.
type Options struct {
	Clients *httpserver.Bounds
	// Own is the store of limits that requests bring. It must have no metrics by scope, which
	// clients choose.
	Own sluice.SlotStore
	Now func() time.Time
}

// API holds what all listeners of this front share. It is safe for concurrent use.
type API struct {
	o       Options
	plans   *plans
	refused [refusals]atomic.Int64
}

// New returns an API.
func New(o Options) (*API, error) {
	plans, err := newPlanCache(o.Now)
	return &API{o: o, plans: plans}, err
}

// Refused returns the numbers of calls that were not answered, by reason.
func (a *API) Refused() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for i := range a.refused {
			if !yield(refusalNames[i], a.refused[i].Load()) {
				return
			}
		}
	}
}

// Kind returns the kind of this front.
func (a *API) Kind() front.Kind {
	return front.Kind{
		Name: name, ALPN: []string{"h2", "http/1.1"},
		New: func(*config.Listener) (front.Front, error) { return newListener(a), nil },
	}
}

// listener serves the clients of one listener.
type listener struct {
	*httpserver.Server
	api     *API
	handler atomic.Pointer[http.Handler]
}

func newListener(a *API) *listener {
	l := &listener{api: a}
	l.Server = httpserver.New(l, a.o.Clients)
	return l
}

// ServeHTTP answers a call under the active snapshot.
func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*l.handler.Load()).ServeHTTP(w, r)
}

// Prepare implements [front.Front].
func (l *listener) Prepare(s *front.Snapshot) (use func(), err error) {
	a := &active{
		Snapshot: s, api: l.api, plans: l.api.plans, own: l.api.o.Own, ownSlots: l.api.o.Own,
		shared: s.Config.Store.Redis != "", admits: clientip.NewAdmission(s.Listener.Allow, s.Listener.Deny),
		records: front.Recorder{Front: name, Sinks: s.Sinks},
	}
	if s.Listener.TokensFile != "" {
		if a.tokens, err = readTokens(s.Listener.TokensFile, s.Policy); err != nil {
			return nil, err
		}
	}
	handler := s.Trace(a)
	return func() {
		l.handler.Store(&handler)
		l.SetLeastBodyRate(cmp.Or(s.Listener.LeastBodyRate, s.Config.LeastBodyRate))
	}, nil
}

// active answers calls under one configuration.
type active struct {
	*front.Snapshot
	api        *API
	plans      *plans
	own        sluice.Store
	ownSlots   sluice.SlotStore
	shared     bool // the store is elsewhere
	admits     clientip.Admission
	tokens     []token // nil: none is needed
	records    front.Recorder
	calls      sync.Pool // of *evaluate.Call
	evaluators sync.Map  // name of a rule to *evaluate.Evaluator
}

// evaluatorOf returns the evaluator of one rule, nil if there is none that the token may use.
func (a *active) evaluatorOf(t *token, rule string) *evaluate.Evaluator {
	if e, ok := a.evaluators.Load(rule); ok && t.may(rule) {
		return e.(*evaluate.Evaluator) //nolint:forcetypeassert // nothing else is ever stored
	}
	i, there := ruleOf(a.Policy, rule)
	if !there || !t.may(rule) {
		return nil
	}
	alone, err := policy.Compile(a.Policy.Rules()[i : i+1])
	if err != nil {
		return nil // there is no error: the rule was compiled before
	}
	e, err := evaluate.New(evaluate.Options{
		Name: name, Policy: alone, Store: a.Store, Overrides: a.Overrides, NoBodies: true, NoResponses: true, CallerWaits: true, Now: a.Now,
		OnError: func(ctx context.Context, _ policy.Attributes, err error) { a.OnError(ctx, err) },
	})
	if err != nil {
		return nil // as well
	}
	a.evaluators.Store(rule, e)
	return e
}

// ServeHTTP answers a call.
func (a *active) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, p := a.answer(w, r)
	if p != nil {
		a.api.refused[p.why].Add(1)
		p.write(w)
		return
	}
	write(w, http.StatusOK, "application/json", answer)
}

// answer returns the answer to a call.
func (a *active) answer(w http.ResponseWriter, r *http.Request) (any, *problem) {
	op, method := operations[r.URL.Path], http.MethodPost
	if r.URL.Path == "/v1/rules" || r.URL.Path == "/v1/openapi.json" {
		op, method = &operation{}, http.MethodGet
	}
	switch {
	case !a.admits.Admits(clientip.Peer(r.RemoteAddr)):
		return nil, refused(http.StatusForbidden, refusedToken, "%v", evaluate.ErrNotAdmitted)
	case op == nil:
		return nil, refused(http.StatusNotFound, refusedOperation, "there is no such call; GET /v1/openapi.json lists all")
	case r.Method != method:
		w.Header().Set("Allow", method)
		return nil, refused(http.StatusMethodNotAllowed, refusedOperation, "the method is %s; use %s", r.Method, method)
	case r.URL.Path == "/v1/openapi.json":
		return json.RawMessage(document), nil
	}
	token := tokenOf(r, a.tokens)
	switch {
	case token == nil:
		return nil, refused(http.StatusUnauthorized, refusedToken, "the call has no valid token; send one as Authorization: Bearer TOKEN")
	case method == http.MethodGet:
		return a.rulesOf(token), nil
	case !slices.Contains(token.Operations, op.name):
		return nil, refused(http.StatusForbidden, refusedOperation, "this token may not %s; add it to the operations of the token", op.name)
	}
	c := &call{active: a, http: r, token: token, op: op, began: time.Now()}
	b, p := c.read(r.Context(), w)
	switch {
	case p != nil:
		return nil, p
	case b.All:
		return c.together(b.list) //nolint:contextcheck // it is in the call
	case b.Requests != nil:
		return c.answers(b.list), nil
	}
	return c.answers(b.list).Results[0], nil
}

// read reads the body of a call, and finds what its requests are about.
func (c *call) read(ctx context.Context, w http.ResponseWriter) (b *body, _ *problem) {
	id, keys := "", c.http.Header["Idempotency-Key"]
	media, _, _ := strings.Cut(c.http.Header.Get("Content-Type"), ";")
	switch {
	case !strings.EqualFold(strings.TrimSpace(media), "application/json"): // which no page of another site can send without being asked
		return b, refused(http.StatusUnsupportedMediaType, refusedBody, "the body is not JSON by its Content-Type; send Content-Type: application/json")
	case len(keys) > 1 || len(keys) == 1 && (keys[0] == "" || len(keys[0]) > mostID):
		return b, faulty(faults{{"Idempotency-Key", fmt.Sprintf("must be one of 1 to %d bytes", mostID)}})
	case len(keys) == 1 && c.op.name != "take":
		return b, faulty(faults{{"Idempotency-Key", "is for /v1/take; a hold has an id, and the other calls can be repeated"}})
	case len(keys) == 1:
		id = keys[0]
	}
	document, err := io.ReadAll(http.MaxBytesReader(w, c.http.Body, mostBody))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return b, refused(http.StatusRequestEntityTooLarge, refusedBody, "the body has more than %d bytes; send fewer requests at once", mostBody)
	} else if err != nil {
		return b, refused(http.StatusBadRequest, refusedBody, "the body broke off")
	}
	b, all := decode(document, c.op)
	if len(all) > 0 {
		return b, faulty(all)
	}
	return b, c.resolve(ctx, b, id)
}

// resolve finds what the requests of a call are about. The id is that of the Idempotency-Key.
func (c *call) resolve(ctx context.Context, b *body, id string) *problem {
	var all faults
	for i := range b.list {
		q, at := b.list[i], b.place(i)
		switch {
		case q.Scope != "" && !c.token.OwnLimits:
			return refused(http.StatusForbidden, refusedOperation, "this token may not bring limits; give it own_limits, or name a rule")
		case q.Scope == "":
			if q.evaluator = c.evaluatorOf(c.token, q.Rule); q.evaluator == nil {
				all.add(at, "rule", "is no rule that this token may use; GET /v1/rules lists these")
			}
		case c.op.name != "slots":
			var p *problem
			if q.plan, p = c.plans.of(ctx, c.token, q, at, &all); p != nil {
				return p
			}
		}
		switch {
		case c.op.holds:
			q.ID = cmp.Or(q.ID, rand.Text())
			q.hold = &sluice.Hold{ID: c.token.Name + "/hold/" + q.ID, TTL: millisOf(q.TTL, 0), Retry: q.Retry}
		case id != "":
			of := "/take/"
			switch {
			case b.All: // all of the batch is one hold
				of = "/take-all/"
			case b.Requests != nil:
				of = fmt.Sprintf("/take[%d]/", i)
			}
			q.hold = &sluice.Hold{ID: c.token.Name + of + id, TTL: millisOf(b.Remember, remember), Settled: true}
		}
	}
	if len(all) > 0 {
		return faulty(all)
	}
	return nil
}

// millisOf returns a number of ms as a duration, otherwise if there is none.
func millisOf(ms *int64, otherwise time.Duration) time.Duration {
	if ms == nil {
		return otherwise
	}
	return time.Duration(*ms) * time.Millisecond
}

// rule describes a rule.
type rule struct {
	Name   string     `json:"name"`
	Shadow bool       `json:"shadow,omitempty"`
	Cost   string     `json:"cost,omitempty"`
	Levels []keyLevel `json:"levels"`
}

// keyLevel describes one key of a rule and its limits.
type keyLevel struct {
	Name   string   `json:"name,omitempty"`
	By     []string `json:"by"`
	Limits []string `json:"limits"`
}

// rulesOf returns the rules that a token may use.
func (a *active) rulesOf(t *token) any {
	list := []rule{}
	for i := range a.Policy.Rules() {
		r := &a.Policy.Rules()[i]
		if !t.may(r.Name) {
			continue
		}
		of := rule{Name: r.Name, Shadow: r.Shadow, Cost: r.Cost.String(), Levels: []keyLevel{}}
		for j := range r.Levels {
			l := keyLevel{Name: r.Levels[j].Name, By: []string{}, Limits: []string{}}
			for _, p := range r.Levels[j].By {
				l.By = append(l.By, p.String())
			}
			for _, limit := range r.Levels[j].Limits {
				l.Limits = append(l.Limits, limit.String())
			}
			of.Levels = append(of.Levels, l)
		}
		list = append(list, of)
	}
	return map[string][]rule{"rules": list}
}
