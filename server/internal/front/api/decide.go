// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// call is a call while it is answered.
type call struct {
	*active
	http  *http.Request
	token *token
	op    *operation
	began time.Time
}

func (c *call) context() context.Context { return c.http.Context() }

// operation is what a call does with each of its requests.
type operation struct {
	name   string // as in the operations of a token
	fields string // that its requests may have, each between spaces, beside those that name a budget
	needs  string // that they must have, in the same form
	holds  bool   // they name a hold
	do     func(*call, *request) answer
}

// operations are those of POST, by path.
var operations = map[string]*operation{
	"/v1/take":          {name: "take", fields: " cost ", do: (*call).decide},
	"/v1/peek":          {name: "peek", fields: " cost ", do: (*call).decide},
	"/v1/hold":          {name: "hold", holds: true, fields: " id ", needs: " cost ttl_ms ", do: (*call).decide},
	"/v1/settle":        {name: "settle", holds: true, fields: " retry ", needs: " cost id ", do: (*call).settle},
	"/v1/extend":        {name: "extend", holds: true, needs: " id ttl_ms ", do: (*call).extend},
	"/v1/refund":        {name: "refund", fields: " cost ", needs: " receipt ", do: (*call).refund},
	"/v1/reset":         {name: "reset", do: (*call).reset},
	"/v1/slots/acquire": {name: "slots", fields: " cost ", needs: " owner cap ttl_ms ", do: slot(sluice.SlotAcquire)},
	"/v1/slots/renew":   {name: "slots", needs: " owner cap ttl_ms ", do: slot(sluice.SlotRenew)},
	"/v1/slots/release": {name: "slots", needs: " owner cap ttl_ms ", do: slot(sluice.SlotRelease)},
}

// answers answers the requests of a call in their order or, if the store is shared, many at
// once, as each waits for the network.
func (c *call) answers(requests []*request) batch {
	list := make([]answer, len(requests))
	at := 1
	if c.shared {
		at = atOnce
	}
	var wait sync.WaitGroup
	places := make(chan struct{}, at)
	for i := range list {
		if at == 1 || len(list) == 1 {
			list[i] = c.op.do(c, requests[i])
			continue
		}
		places <- struct{}{}
		wait.Go(func() {
			list[i] = c.op.do(c, requests[i])
			<-places
		})
	}
	wait.Wait()
	return batch{!slices.ContainsFunc(list, func(a answer) bool { return !a.Allowed }), list}
}

// decide takes, peeks or holds.
func (c *call) decide(q *request) (a answer) {
	if q.plan != nil {
		list, _ := c.together([]*request{q})
		a = list.Results[0]
	} else {
		of := c.used(q)
		defer c.calls.Put(of)
		of.Hold = q.hold
		q.evaluator.Decide(c.context(), q.attributes, of)
		a = c.answerTo(q, &of.Event)
	}
	if c.op.name == "hold" && a.Allowed {
		a.ID = q.ID
	}
	return a
}

// used returns a Call for a request.
func (c *call) used(q *request) *evaluate.Call {
	of, ok := c.calls.Get().(*evaluate.Call)
	if !ok {
		of = new(evaluate.Call)
	}
	of.Peek, of.Cost, of.Hold = c.op.name == "peek", q.Cost, nil
	return of
}

// together decides requests all or none, in one request to the store.
func (c *call) together(requests []*request) (b batch, _ *problem) {
	parts, store := make([]part, len(requests)), c.Store
	var (
		charges []sluice.Charge // of all parts, merged
		refused bool
	)
	for i := range parts {
		q, p := requests[i], &parts[i] //nolint:gosec // there are as many
		if q.plan != nil {             // the metrics of the other store have its scope as a label
			p.charges, store = []sluice.Charge{{Plan: q.plan, Key: q.Key, Cost: q.units()}}, c.own
		} else {
			p.call = c.used(q)
			defer c.calls.Put(p.call)
			p.charges = q.evaluator.Charges(c.context(), q.attributes, p.call)
			refused = refused || !p.call.Verdict.Passes()
		}
		for _, charge := range p.charges {
			at := slices.IndexFunc(charges, func(o sluice.Charge) bool { return o.Plan.Scope() == charge.Plan.Scope() && o.Key == charge.Key })
			switch {
			case at < 0:
				at, charges = len(charges), append(charges, charge)
			case charges[at].Plan != charge.Plan:
				return b, faulty(faults{{fmt.Sprintf("requests[%d]", i), "has other limits for its scope and key than a request before it; give both the same"}})
			default:
				charges[at].Cost = min(charges[at].Cost+charge.Cost, sluice.MaxQuota)
			}
			p.at = append(p.at, at)
		}
	}
	if len(charges) > sluice.MaxCharges {
		return b, faulty(faults{{"requests", fmt.Sprintf("charge %d keys; at most %d can be charged all or none", len(charges), sluice.MaxCharges)}})
	}
	r, outcomes := sluice.Result{Decision: sluice.Decision{Allowed: !refused}}, sluice.Outcomes(nil)
	if len(charges) > 0 && !refused {
		req := sluice.Request{Charge: charges[0], More: charges[1:], Hold: requests[0].hold, Outcomes: &outcomes}
		if outcomes = make(sluice.Outcomes, req.Limits()); c.op.name == "peek" {
			req.Op = sluice.OpPeek
		}
		r.Decision, r.Err = store.Take(c.context(), req)
	}
	b = batch{true, make([]answer, len(parts))}
	for i := range parts {
		b.Results[i] = c.answerPart(requests[i], &parts[i], charges, outcomes, r) //nolint:gosec // as well
		b.Allowed = b.Allowed && b.Results[i].Allowed
	}
	for i := range b.Results {
		b.Results[i].Allowed = b.Allowed
	}
	return b, nil
}

// part is one of the requests that are decided together.
type part struct {
	charges []sluice.Charge
	at      []int          // of each in the merged charges
	call    *evaluate.Call // nil for limits that the request has brought
}

// answerPart answers one of the requests that were decided together.
func (c *call) answerPart(q *request, p *part, merged []sluice.Charge, all sluice.Outcomes, r sluice.Result) answer {
	if p.call != nil && !p.call.Verdict.Passes() {
		return c.answerTo(q, &p.call.Event)
	}
	var own sluice.Outcomes // its own limits'
	for _, at := range p.at {
		first := 0
		for i := range merged[:at] {
			first += merged[i].Plan.Len()
		}
		if all != nil {
			own = append(own, all[first:first+merged[at].Plan.Len()]...)
		}
	}
	d := &r.Decision
	if r.Err == nil && !d.Allowed && d.Hold < sluice.HoldsFull && !slices.ContainsFunc(own, func(o sluice.Outcome) bool { return !o.Allowed }) {
		return answer{Verdict: evaluate.Denied.String(), Detail: "another request of the batch was denied, and nothing was charged"}
	}
	if r.Err == nil && len(own) > 0 {
		d.Binding = 0
		for i := range own {
			if o, w := &own[i], &own[d.Binding]; !o.Allowed && (w.Allowed || o.RetryAfter > w.RetryAfter) || o.Allowed && w.Allowed && o.Remaining < w.Remaining {
				d.Binding = i
			}
		}
		w := &own[d.Binding]
		d.Remaining, d.RetryAfter, d.ResetAfter, d.TooLarge = w.Remaining, max(w.RetryAfter, holdWait(d)), w.ResetAfter, w.TooLarge
		if d.Spent = 0; d.Allowed && c.op.name != "peek" {
			d.Spent = p.charges[0].Cost
		}
	}
	if p.call == nil {
		e := eventOf(c.context(), p.charges[0], own, r)
		return c.answerTo(q, &e)
	}
	spent := d.Spent
	p.call.Conclude(c.context(), r, own)
	p.call.Decision.Spent = spent
	return c.answerTo(q, &p.call.Event)
}

// holdWait returns after which time there may be room for another hold.
func holdWait(d *sluice.Decision) time.Duration {
	if d.Hold == sluice.HoldsFull {
		return d.RetryAfter
	}
	return 0
}

// units returns the cost of a request that has limits of its own.
func (q *request) units() int64 {
	if q.Cost == nil {
		return 1
	}
	return *q.Cost
}

// change carries out an operation that is no decision. The function each sets the units of each
// charge.
func (c *call) change(q *request, req sluice.Request, each func(*sluice.Charge)) answer {
	charges, store := []sluice.Charge{{Plan: q.plan, Key: q.Key}}, c.own
	if q.plan == nil {
		of := c.used(q)
		defer c.calls.Put(of)
		of.Cost = new(int64)
		store, charges = c.Store, q.evaluator.Charges(c.context(), q.attributes, of)
		if !of.Verdict.Passes() {
			return answerOf(&of.Event)
		}
		if len(charges) == 0 {
			return answer{Allowed: true, Unlimited: true}
		}
	}
	for i := range charges {
		each(&charges[i])
	}
	req.Charge, req.More, req.Hold = charges[0], charges[1:], q.hold
	d, err := store.Take(c.context(), req)
	if err != nil {
		return c.failed(err)
	}
	a := answer{Allowed: d.Allowed, Degraded: d.Degraded, Spent: &d.Spent}
	a.setHold(d.Hold)
	return a
}

func (c *call) settle(q *request) answer {
	return c.change(q, sluice.Request{Op: sluice.OpSettle}, func(to *sluice.Charge) { to.Cost = *q.Cost })
}

func (c *call) extend(q *request) answer {
	return c.change(q, sluice.Request{Op: sluice.OpExtend}, func(*sluice.Charge) {})
}

func (c *call) reset(q *request) answer {
	return c.change(q, sluice.Request{Op: sluice.OpReset}, func(*sluice.Charge) {})
}

func (c *call) refund(q *request) answer {
	of := q.receipt
	units := *cmp.Or(q.Cost, &of.units)
	req := sluice.Request{Op: sluice.OpRefund, At: of.at}
	if units == of.units {
		req.Due = of.due
	}
	a := c.change(q, req, func(to *sluice.Charge) { to.Cost, to.Counted = units, of.units })
	if a.Allowed && units < of.units {
		a.Receipt = receipt{of.at, 0, of.units - units}.String()
	}
	return a
}

// failed is the answer to an operation that no failure policy decides.
func (c *call) failed(err error) answer {
	if bad, ok := errors.AsType[*sluice.RequestError](err); ok {
		return answer{Verdict: evaluate.Refused.String(), Detail: bad.Problem}
	}
	if c.context().Err() == nil {
		c.OnError(c.context(), err)
	}
	return answer{Verdict: evaluate.FailedClosed.String(), Degraded: true, RetryMS: time.Second.Milliseconds(), Detail: "the store could not be asked; retry later"}
}

// answerTo records a decision, and returns the answer.
func (c *call) answerTo(q *request, e *evaluate.Event) answer {
	if c.op.name != "peek" {
		for _, ended := range []bool{false, true} {
			c.records.Record(c.context(), func(r *front.Record) {
				r.Event, r.Request, r.Ended, r.Status, r.Route = *e, q.attributes, ended, http.StatusOK, name
				r.Method, r.Host, r.Target, r.Proto = cmp.Or(q.Method, c.http.Method), cmp.Or(q.Host, c.http.Host), cmp.Or(q.Path, c.http.URL.Path), c.http.Proto
				r.At, r.Took, r.In = c.began, time.Since(c.began), -1
			})
		}
	}
	return answerOf(e)
}
