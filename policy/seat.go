// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
)

// impatient is how long a request may be delayed that goes on only if it fits now.
const impatient = time.Microsecond

// seating takes the place of a request that may be delayed, before the store is
// asked. One that finds none must not be reserved anything: as others reserve behind
// it, it could not give all of it back, and the units of a key whose requests find no
// place would be spent on none of them.
func (v *Verdict) seating() {
	k := &v.asks[0]
	if v.front == nil || v.peek || k.role != taken {
		return
	}
	op, most, queues := v.wait(k)
	if op == sluice.OpTake && !queues {
		return
	}
	v.most = most
	if v.full = v.takeSeat(k); v.full != nil {
		v.left = impatient
	}
}

// unseated returns why a request was denied that would have been delayed, had there
// been a place; nil if that is not why.
func (v *Verdict) unseated() error {
	if v.full == nil {
		return nil
	}
	return v.wouldWait()
}

// wouldWait is unseated of a request that has found no place.
func (v *Verdict) wouldWait() error {
	if v.Allowed || len(v.asks) == 0 || v.responsesDeny() {
		return nil
	}
	r := &v.asks[0].result
	if short := v.most == 0 || r.Decision.RetryAfter <= v.most; short && r.Err == nil && !r.Decision.Allowed {
		return v.full
	}
	return nil
}

// takeSeat takes a place in the queue for an ask, if the request has none.
func (v *Verdict) takeSeat(k *ask) error {
	if v.seated {
		return nil
	}
	err := v.front.opts.Queue.enter(v.sit(k))
	v.seated = err == nil
	return err
}

// leaveSeat gives back the place in the queue that the request has, if it does.
func (v *Verdict) leaveSeat() {
	if v.seated {
		v.front.opts.Queue.leave(v.seat, v.waits)
		v.seated, v.waits = false, false
	}
}

// await makes w what the request waits for.
func (v *Verdict) await(w *waiter) {
	v.waiter, v.waits = w, true
	v.front.opts.Queue.hold()
}

// delays reports whether the request may be delayed.
func (v *Verdict) delays() bool { return v.maxWait > 0 || v.needs&needsDelay != 0 }

// patience finds out for how long, as the request has a deadline.
func (v *Verdict) patience(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline) //nolint:forbidigo // a context's deadline is of that clock
		v.left = min(max(left, time.Microsecond), sluice.MaxWait)
	}
}

// wait returns how an ask is taken, and how long its request may be delayed:
// zero leaves it to the limits that queue, if there are any. What would be served
// after its deadline is better denied at once.
func (v *Verdict) wait(k *ask) (op sluice.Op, least time.Duration, queues bool) {
	op, least = sluice.OpTake, v.maxWait
	if !v.delays() {
		return op, 0, false
	}
	if v.maxWait > 0 {
		op = sluice.OpReserve
	}
	blocks := false
	for i := range v.charges[k.first : k.first+k.n] {
		c := &v.charges[k.first+i]
		n := queueing(c.Plan)
		queues = queues || n > 0
		blocks = blocks || len(c.level.Blocks) > 0
		if w := c.rule.MaxWait; w > 0 {
			if least == 0 || w < least {
				least = w
			}
			if n < c.Plan.Len() {
				op = sluice.OpReserve
			}
		}
	}
	if blocks {
		op = sluice.OpTake // a delayed request is not denied, and a blocked key should not wait
	}
	if v.left > 0 && (queues && least == 0 || v.left < least) {
		least = v.left
	}
	return op, least, queues
}

// queueing returns how many limits of a plan delay requests by themselves.
func queueing(p *sluice.Plan) (n int) {
	for i := range p.Len() {
		if p.Term(i).Queues() {
			n++
		}
	}
	return n
}
