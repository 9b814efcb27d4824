// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

const newPlans = 60 // limits that a token may bring in a minute, beside those that are kept

// plans holds compiled limits that requests have brought. It is safe for concurrent use.
type plans struct {
	added *sluice.Limiter                     // by the names of tokens
	known front.Brought[string, *sluice.Plan] // by scope and limits
}

func newPlanCache(now func() time.Time) (*plans, error) {
	store := memstore.New(memstore.Options{MaxKeys: 1 << 12, Now: now})
	added, err := sluice.New(store, "new-limits", sluice.PerMinute(newPlans))
	return &plans{added: added}, err
}

// scopeOf returns the scope of a token's request in the store. No rule and no other token can
// have it, as names have no colon and no slash.
func scopeOf(t *token, scope string) string { return "api:" + t.Name + "/" + scope }

// of returns the plan of a request's limits. Without one, it has added their faults, or returns
// the problem.
func (p *plans) of(ctx context.Context, t *token, q *request, at place, all *faults) (plan *sluice.Plan, why *problem) {
	scope := scopeOf(t, q.Scope)
	plan, err := p.known.Of(scope+"\x00"+strings.Join(q.Limits, "\x00"), func() (plan *sluice.Plan, failed error) {
		limits := make([]sluice.Limit, len(q.Limits))
		for i, text := range q.Limits {
			var err error
			if limits[i], err = sluice.ParseLimit(text); err != nil {
				all.add(at, fmt.Sprintf("limits[%d]", i), "%v", err)
				failed = err
			}
		}
		if failed != nil {
			return nil, failed
		}
		if plan, failed = sluice.Compile(scope, limits...); failed != nil {
			all.add(at, "limits", "%v", failed)
			return nil, failed
		}
		d, err := p.added.Take(ctx, t.Name, 1)
		if err == nil && d.Allowed {
			return plan, nil
		}
		why = refused(http.StatusTooManyRequests, refusedLimits, "this token has brought %d new limits in a minute; use few scopes and limits, and put what differs into the key", newPlans)
		why.Retry = max(millis(d.RetryAfter), 1000)
		return nil, errTooMany
	})
	if err != nil {
		return nil, why
	}
	return plan, nil
}

var errTooMany = errors.New("too many new limits")

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
