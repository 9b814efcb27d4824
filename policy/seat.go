// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
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
