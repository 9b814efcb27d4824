// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
)

const (
	mostPlans = 4096 // that are kept, of all tokens together
	newPlans  = 60   // a minute, of each token
)

// plans holds compiled limits that requests have brought. It is safe for concurrent use.
type plans struct {
	added *sluice.Limiter // by the names of tokens

	mu    sync.Mutex
	known map[string]*sluice.Plan // by scope and limits
}

func newPlanCache(now func() time.Time) (*plans, error) {
	store := memstore.New(memstore.Options{MaxKeys: 1 << 12, Now: now})
	added, err := sluice.New(store, "new-limits", sluice.PerMinute(newPlans))
	return &plans{added: added, known: make(map[string]*sluice.Plan)}, err
}

// scopeOf returns the scope of a token's request in the store. No rule and no other token can
// have it, as names have no colon and no slash.
func scopeOf(t *token, scope string) string { return "api:" + t.Name + "/" + scope }

// of returns the plan of a request's limits.
func (p *plans) of(ctx context.Context, t *token, q *request, at place, all *faults) (*sluice.Plan, *problem) {
	scope := scopeOf(t, q.Scope)
	id := scope + "\x00" + strings.Join(q.Limits, "\x00")
	p.mu.Lock()
	plan := p.known[id]
	p.mu.Unlock()
	if plan != nil {
		return plan, nil
	}
	limits, before := make([]sluice.Limit, len(q.Limits)), len(*all)
	for i, text := range q.Limits {
		var err error
		if limits[i], err = sluice.ParseLimit(text); err != nil {
			all.add(at, fmt.Sprintf("limits[%d]", i), "%v", err)
		}
	}
	if len(*all) > before {
		return nil, nil
	}
	plan, err := sluice.Compile(scope, limits...)
	if err != nil {
		all.add(at, "limits", "%v", err)
		return nil, nil
	}
	if d, err := p.added.Take(ctx, t.Name, 1); err != nil || !d.Allowed {
		why := refused(http.StatusTooManyRequests, refusedLimits, "this token has brought %d new limits in a minute; use few scopes and limits, and put what differs into the key", newPlans)
		why.Retry = max(millis(d.RetryAfter), 1000)
		return nil, why
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for id := range p.known { // any of them
		if len(p.known) < mostPlans {
			break
		}
		delete(p.known, id)
	}
	p.known[id] = plan
	return plan, nil
}

// eventOf returns the event of the store's result for limits that a request has brought. They
// fail open, as rules do by default.
func eventOf(ctx context.Context, c sluice.Charge, own sluice.Outcomes, r sluice.Result) evaluate.Event {
	d, err := r.Decision, r.Err
	e := evaluate.Event{Verdict: evaluate.Allowed, Decision: d, Charge: sluice.Charge{Key: c.Key, Cost: c.Cost}, Err: err}
	switch {
	case err != nil && ctx.Err() != nil:
		e.Verdict, e.Err = evaluate.Abandoned, ctx.Err()
		return e
	case err != nil, d.Degraded && d.Allowed:
		e.Verdict = evaluate.FailedOpen
	case !d.Allowed:
		e.Verdict = evaluate.Denied
	case d.Delay > 0:
		e.Verdict = evaluate.Delayed
	}
	if err == nil {
		e.Limit = c.Plan.Term(d.Binding)
	}
	for i := range own {
		if !d.Allowed && !own[i].Allowed {
			e.Violated = append(e.Violated, c.Plan.Term(i).Name)
		}
	}
	return e
}

// slot carries out an operation of slots.
func slot(op sluice.SlotOp) func(*call, *request) answer {
	return func(c *call, q *request) answer {
		limit := sluice.SlotLimit{Name: "slots", Cap: *q.Cap, TTL: millisOf(q.TTL, 0)}
		d, err := c.ownSlots.Slot(c.context(), sluice.SlotRequest{Op: op, Scope: scopeOf(c.token, q.Scope), Limit: limit, Key: q.Key, Owner: q.Owner, Cost: q.units()})
		if err != nil {
			return c.failed(err)
		}
		a := answer{Allowed: d.Allowed, Degraded: d.Degraded, TooLarge: d.TooLarge}
		if !d.Degraded { // else nobody has counted
			a.Held, a.Free = &d.Held, &d.Free
		}
		if !d.TooLarge {
			a.RetryMS = millis(d.RetryAfter)
		}
		switch {
		case !d.Allowed && d.Degraded:
			a.Detail = "the store could not be asked; retry later"
		case !d.Allowed && op != sluice.SlotRelease:
			a.Detail = fmt.Sprintf("%d of %d slots are free", d.Free, *q.Cap)
		}
		return a
	}
}
