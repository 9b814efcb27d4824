// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"time"

	"github.com/sluicegate/sluice"
)

// noDelay is the longest delay of a request that must pass at once or not at all.
const noDelay = time.Microsecond

// enterQueue takes a place in the queue for a request that may be delayed, before the
// store is asked. Without a place nothing may be reserved: later requests would reserve behind
// it, and then not all of its units could be given back.
func (v *Verdict) enterQueue() {
	k := &v.asks[0]
	if v.evaluator.opts.Queue == nil || v.peek || k.role != taken {
		return
	}
	op, most, queues := v.wait(k)
	if op == sluice.OpTake && !queues {
		return
	}
	v.most = most
	if v.full = v.queueFor(k); v.full != nil {
		v.left = noDelay
	}
}

// whyNotDelayed returns the error of a request that was denied for lack of a place in the
// queue, or nil if it was denied for another reason.
func (v *Verdict) whyNotDelayed() error {
	if v.full == nil || v.Allowed || len(v.asks) == 0 || v.responsesDeny() {
		return nil
	}
	r := &v.asks[0].result
	if short := v.most == 0 || r.Decision.RetryAfter <= v.most; short && r.Err == nil && !r.Decision.Allowed {
		return v.full
	}
	return nil
}

// queueFor takes a place in the queue for an ask, if the request has none.
func (v *Verdict) queueFor(k *ask) error {
	if v.queued {
		return nil
	}
	err := v.evaluator.opts.Queue.enter(v.waitKeyOf(k))
	v.queued = err == nil
	return err
}

// leaveQueue gives back the request's place in the queue, if it has one.
func (v *Verdict) leaveQueue() {
	if v.queued {
		v.evaluator.opts.Queue.leave(v.waitKey, v.waits)
		v.queued, v.waits = false, false
	}
}

// await makes the request wait for w.
func (v *Verdict) await(w *waiter) {
	v.waiter, v.waits = w, true
	v.evaluator.opts.Queue.waits()
}

// delays reports whether the request may be delayed.
func (v *Verdict) delays() bool { return v.evaluator.opts.MaxWait > 0 || v.needs&needsDelay != 0 }

// patience bounds the delay by the deadline of ctx.
func (v *Verdict) patience(ctx context.Context) {
	if deadline, ok := ctx.Deadline(); ok {
		left := deadline.Sub(v.now())
		v.left = min(max(left, time.Microsecond), sluice.MaxWait)
	}
}

// wait returns the operation of an ask and the longest delay of its request; zero leaves
// the delay to the limits that queue. A request that would be served after its deadline
// is denied at once.
func (v *Verdict) wait(k *ask) (op sluice.Op, least time.Duration, queues bool) {
	op, least = sluice.OpTake, v.evaluator.opts.MaxWait
	if !v.delays() || v.opens != nil {
		return op, 0, false
	}
	if v.evaluator.opts.MaxWait > 0 {
		op = sluice.OpReserve
	}
	blocks := false
	for i := range v.charges[k.first : k.first+k.n] {
		c := &v.charges[k.first+i]
		n := queueing(c.Plan)
		queues = queues || n > 0
		blocks = blocks || len(c.level.Blocks) > 0
		if w := c.level.rule.MaxWait; w > 0 {
			if least == 0 || w < least {
				least = w
			}
			if n < c.Plan.Len() {
				op = sluice.OpReserve
			}
		}
	}
	if blocks {
		op = sluice.OpTake // a blocked key must not wait
	}
	if v.left > 0 && (queues && least == 0 || v.left < least) {
		least = v.left
	}
	return op, least, queues
}

// queueing returns how many limits of a plan delay requests by themselves.
func queueing(p *sluice.Plan) (n int) {
	for i := range p.Len() {
		if p.Term(i).Queues {
			n++
		}
	}
	return n
}
