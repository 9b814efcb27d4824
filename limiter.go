// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/instants"
)

// Limiter is a [Plan] on a [Store]: the limits of one scope for any number of keys. It is
// safe for concurrent use. The Store keeps the state, so two Limiters of one scope on one
// Store share the budget.
//
// A Limiter keeps the instants that callers of [Limiter.Wait] leave, for later callers of
// Wait. Make one Limiter of a scope and share it: for other Limiters, other processes and
// callers of the Store, such an instant stays spent until it is due. A copy of a Limiter
// shares the instants.
//
// Its methods block as the Store does. They return a [*RequestError] for an invalid key,
// cost or time, and the Store's error if there is no decision. A denial is no error.
type Limiter struct {
	store Store
	take  func(ctx context.Context, plan *Plan, key string, cost int64) (Decision, error) // from store
	plan  *Plan
	lines *lines
}

// takeOf returns the function by which a Limiter takes from store.
func takeOf(store Store) func(ctx context.Context, plan *Plan, key string, cost int64) (Decision, error) {
	if s, ok := store.(DirectStore); ok {
		if direct := s.Direct(store); direct != nil {
			return direct
		}
	}
	return func(ctx context.Context, plan *Plan, key string, cost int64) (Decision, error) {
		return store.Take(ctx, Request{Charge: Charge{Plan: plan, Key: key, Cost: cost}})
	}
}

// New returns a Limiter of one or more limits. Limiters of one scope, such as
// "login", share counters. See [Compile] for the limits that it refuses.
func New(store Store, scope string, limits ...Limit) (*Limiter, error) {
	if store == nil {
		return nil, errors.New("sluice: new: store is nil")
	}
	plan, err := Compile(scope, limits...)
	if err != nil {
		return nil, err
	}
	l := &Limiter{store: store, take: takeOf(store), plan: plan}
	l.lines = instants.New[string](mostFree, time.Now, func(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }, l.overdue)
	return l, nil
}

// Plan returns the limits.
func (l *Limiter) Plan() *Plan { return l.plan }

// Of returns cost units charged to key: for [TakeAll], and for a [Request].
func (l *Limiter) Of(key string, cost int64) Charge {
	return Charge{Plan: l.plan, Key: key, Cost: cost}
}

// Take spends cost units of key if every limit has them, else none. It asks the Store
// alone: instants that callers of [Limiter.Wait] have left stay spent until they are due.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (d Decision, err error) {
	d, err = l.take(ctx, l.plan, key, cost)
	return
}

// Allow takes 1 unit of key and reports whether it was allowed.
func (l *Limiter) Allow(ctx context.Context, key string) (bool, error) {
	d, err := l.Take(ctx, key, 1)
	return d.Allowed, err
}

// Peek answers as Take would and spends nothing.
func (l *Limiter) Peek(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.store.Take(ctx, Request{Op: OpPeek, Charge: l.Of(key, cost)})
}

// TakeUpTo spends as many units of key as every limit has, n at most. The Decision's Spent is
// their number.
func (l *Limiter) TakeUpTo(ctx context.Context, key string, n int64) (Decision, error) {
	return l.store.Take(ctx, Request{Op: OpTakeUpTo, Charge: l.Of(key, n)})
}

// Charge spends cost units of key whether they fit or not: for a cost that is known only
// afterwards. Units above full count as debt, up to the limit's Debt. Charge first refunds
// the instants that callers of [Limiter.Wait] have left.
func (l *Limiter) Charge(ctx context.Context, key string, cost int64) (Decision, error) {
	return l.askAfter(ctx, l.left(key), Request{Op: OpCharge, Charge: l.Of(key, cost)})
}

// left removes the free instants of key and returns them, to be refunded.
func (l *Limiter) left(key string) (back []receipt) {
	if l.lines.Free() > 0 {
		_, _, back = l.lines.Claim(same(l.Of(key, 0)), time.Time{})
	}
	return back
}

// Refund gives back units that the decision taken has spent, as far as they still count:
// units that have refilled since cannot be spent twice. It reads the receipt in taken: At,
// Due, Delay, Spent and the units that Settle charged. The Decision's Spent is the number of
// units given back, negative. To give back in several steps use [Limiter.Settle], which
// returns a receipt for the rest.
func (l *Limiter) Refund(ctx context.Context, key string, units int64, taken Decision) (Decision, error) {
	return l.refund(ctx, key, units, &taken)
}

// refund gives back units of a receipt, those that Settle has charged first, and deducts
// them from the receipt.
func (l *Limiter) refund(ctx context.Context, key string, units int64, of *Decision) (d Decision, err error) {
	late := Decision{}
	if n := min(units, of.charged); n > 0 {
		req := Request{Op: OpRefund, Charge: l.Of(key, n), At: of.Due}
		req.Counted = of.charged
		if late, err = l.store.Take(ctx, req); err != nil {
			return d, err
		}
		of.Spent, of.charged = of.Spent-n, of.charged-n
		if units -= n; units == 0 {
			return late, nil
		}
	}
	req := Request{Op: OpRefund, Charge: l.Of(key, units), At: of.At}
	if req.Counted = max(of.Spent, units); req.Counted == units && of.Delay > 0 {
		req.Due = of.Due
	}
	if d, err = l.store.Take(ctx, req); err != nil {
		return d, err
	}
	of.Spent -= units
	d.Spent += late.Spent
	return d, nil
}

// Settle corrects an allowed decision once the actual cost is known: it refunds the units
// above it or charges those below it. The Decision is the receipt of all units spent now,
// and may be settled again. Its Spent is actual, or less if a charge had no room for all:
// units above full and the limit's Debt are not recorded, and a Limit has no Debt unless
// one is set.
//
// If nothing changes, it does not call the store and returns taken. It calls the store once,
// or twice to refund units that an earlier Settle charged and units of the take, which
// count at two instants. Of several charges only the latest has an instant of its own, so a
// refund of the others may give back less. With an error the Decision is the receipt of the
// units that are known to be spent.
func (l *Limiter) Settle(ctx context.Context, key string, taken Decision, actual int64) (Decision, error) {
	if actual < 0 {
		return taken, &RequestError{"Cost", fmt.Sprintf("the actual cost %d is negative", actual)}
	}
	var d Decision
	var err error
	switch more := actual - taken.Spent; {
	case more < 0:
		d, err = l.refund(ctx, key, -more, &taken)
	case more > 0:
		if d, err = l.Charge(ctx, key, more); d.Spent > 0 {
			if !l.drains(&taken, d.At) {
				taken.charged, taken.Due = d.Spent, d.At
			}
			taken.Spent += d.Spent
		}
	default:
		return taken, nil
	}
	if err != nil {
		return taken, err
	}
	d.Spent, d.charged, d.At, d.Due = taken.Spent, taken.charged, taken.At, taken.Due
	if d.charged == 0 {
		d.Due = d.At
	}
	return d, nil
}

// drains reports whether all units of a receipt still drain from buckets at an instant.
// Units charged then drain behind them, as if they had been taken together.
func (l *Limiter) drains(taken *Decision, at Instant) bool {
	for i := range l.plan.Len() {
		t := l.plan.Term(i)
		if t.Burst == 0 || t.Rate.Times(taken.Spent).Micros <= int64(at-taken.At) {
			return false
		}
	}
	return taken.charged == 0
}

// Reserve spends cost units of key at the first instant at which every limit
// has them, if that is at most maxWait away. The caller must wait for the
// Decision's Delay, or Cancel.
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64, maxWait time.Duration) (Decision, error) {
	return l.store.Take(ctx, Request{Op: OpReserve, Charge: l.Of(key, cost), MaxWait: maxWait})
}

// Cancel gives back the units of a reservation, or of any allowed decision.
func (l *Limiter) Cancel(ctx context.Context, key string, reserved Decision) error {
	if !reserved.Allowed || reserved.Spent <= 0 {
		return nil
	}
	_, err := l.Refund(ctx, key, reserved.Spent, reserved)
	return err
}

// Reset deletes all state of key. It does not change the instant of a Wait that has begun.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.askAfter(ctx, l.left(key), Request{Op: OpReset, Charge: l.Of(key, 0)})
	return err
}

// Add gives units to key without a receipt, such as units that support grants or a customer
// buys. It first takes back counted units: those owed to a bucket, the newest of a window.
// The rest becomes credit, as far as the limit has one: see [TokenBucket]. A block gives
// nothing. The Decision's Spent is the number of units given under the limit that gave
// most, negative. Add does not change the instant of a Wait that has begun.
//
// Receipts from before should not be refunded: their units may be among those given.
func (l *Limiter) Add(ctx context.Context, key string, units int64) (Decision, error) {
	return l.askAfter(ctx, l.left(key), Request{Op: OpAdd, Charge: l.Of(key, units)})
}

// Convert scales the balance of key to a limit that has replaced another, in proportion to
// their bursts: 40 left of 100 become 80 left of 200, where otherwise 60 units stay owed. It
// rounds the balance up by less than 1 µs of time, and a second call has no effect. See
// [OpConvert] for the states that it does not change.
func (l *Limiter) Convert(ctx context.Context, key string) (Decision, error) {
	return l.askAfter(ctx, l.left(key), Request{Op: OpConvert, Charge: l.Of(key, 0)})
}

// DeniedError is the error of [Limiter.Wait] for a cost that does not fit in time.
type DeniedError struct {
	Limit    Limit // the one that binds
	Decision Decision
}

// Error says which limit denied and for how long.
func (e *DeniedError) Error() string {
	if e.Decision.TooLarge {
		return fmt.Sprintf("sluice: denied by %v: more than it can ever hold", e.Limit)
	}
	return fmt.Sprintf("sluice: denied by %v: retry after %v", e.Limit, e.Decision.RetryAfter)
}

// JointDecision is a decision on charges to several keys, with the limit that binds: it
// denied for longest, or has the least left in relation to its cost.
type JointDecision struct {
	Decision
	Scope string // of the limit that binds
	Key   string // that it was charged to
	Limit Limit  // with every default filled in
}

// TakeAll spends all charges, or none if a limit of one of them has too little:
//
//	d, err := sluice.TakeAll(ctx, store, users.Of(user, 1), addresses.Of(ip, 1))
//
// There are 1 to [MaxCharges], each of another scope or key. The store must be that of
// the Limiters. Errors are those of [Store], and it blocks as long as the store does.
func TakeAll(ctx context.Context, store Store, charges ...Charge) (JointDecision, error) {
	switch {
	case store == nil:
		return JointDecision{}, errors.New("sluice: take all: store is nil")
	case len(charges) == 0:
		return JointDecision{}, &RequestError{"Charge", "there is none; pass at least one, such as limiter.Of(key, 1)"}
	}
	req := Request{Charge: charges[0], More: charges[1:]}
	d, err := store.Take(ctx, req)
	if err != nil {
		return JointDecision{Decision: d}, err
	}
	c, i := req.ChargeAt(d.Binding)
	return JointDecision{Decision: d, Scope: c.Plan.Scope(), Key: c.Key, Limit: c.Plan.terms[i].Limit}, nil
}
