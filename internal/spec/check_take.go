// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
)

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// check checks an answer and records what it has changed.
func (j *checker) check(req *sluice.Request, r *receipt, id int, d *sluice.Decision) error {
	var err error
	switch req.Op {
	case sluice.OpTake, sluice.OpPeek:
		err = j.checkTake(req, id, d)
	case sluice.OpTakeUpTo:
		err = j.checkTakeUpTo(req, id, d)
	case sluice.OpReserve:
		err = j.checkReserve(req, id, d)
	case sluice.OpCharge:
		err = j.checkCharge(req, id, d)
	case sluice.OpRefund:
		err = j.checkRefund(req, r, d)
	case sluice.OpAdd:
		err = j.checkAdd(req, id, d)
	case sluice.OpConvert:
		err = j.checkConvert(req, id, d)
	default:
		j.reset(id)
	}
	if err != nil {
		return err
	}
	if err := j.checkAnswer(req, d); err != nil {
		return err
	}
	for i := range j.items {
		if err := j.items[i].l.checkBound(); err != nil {
			return err
		}
	}
	return nil
}

// all returns when all limits fit.
func (j *checker) all() between {
	f := exactly(j.now)
	for i := range j.items {
		f = f.and(j.items[i].fits)
	}
	return f
}

// checkFits checks that a request is allowed if every limit has its cost (liveness), and
// denied as a whole if one has not (soundness).
func (j *checker) checkFits(d *sluice.Decision) error {
	f := j.all()
	switch {
	case d.Allowed && f.lo > j.now:
		return fmt.Errorf("soundness: allowed, but %s", j.late(f.lo))
	case !d.Allowed && f.hi <= j.now:
		return fmt.Errorf("liveness: denied for %v, but it fits every limit now", d.RetryAfter)
	case d.Allowed && d.RetryAfter != 0:
		return fmt.Errorf("retry after: allowed, with a RetryAfter of %v", d.RetryAfter)
	}
	return nil
}

func (j *checker) late(at int64) string {
	if at == never {
		return "it never fits"
	}
	return fmt.Sprintf("it first fits at %d, in %v", at, micros(at-j.now))
}

// checkRetry checks that RetryAfter is the time until the cost fits if no other request comes,
// and MaxRetryAfter with TooLarge if the cost is more than the limit can hold.
func (j *checker) checkRetry(f between, d *sluice.Decision) error {
	at := int64(never)
	if !d.TooLarge {
		at = j.now + d.RetryAfter.Microseconds()
	}
	if !f.has(at) || d.RetryAfter <= 0 || d.RetryAfter > sluice.MaxRetryAfter || d.RetryAfter%time.Microsecond != 0 || d.TooLarge && d.RetryAfter != sluice.MaxRetryAfter {
		return fmt.Errorf("retry after: %v (at %d), but it fits from %d to %d on", d.RetryAfter, at, f.lo, f.hi)
	}
	return nil
}

// checkTake checks a take: all or none, at once; a queue delays an allowed request.
func (j *checker) checkTake(req *sluice.Request, id int, d *sluice.Decision) error {
	if err := j.checkFits(d); err != nil {
		return err
	}
	if !d.Allowed {
		if req.Op == sluice.OpTake {
			j.deny(req, id)
		}
		if err := j.checkRetry(j.all(), d); err != nil {
			return err
		}
	}
	var delay between
	spent := req.Cost
	if d.Allowed {
		delay = j.delay()
	}
	if req.Op == sluice.OpPeek || !d.Allowed {
		spent = 0
	}
	if err := j.checkReceipt(d, exactly(j.now), delay, exactly(spent)); err != nil {
		return err
	}
	if req.Op == sluice.OpTake && d.Allowed {
		j.spend(req, id, d, exactly(req.Cost))
	}
	return nil
}

// delay returns how long the queues delay a request.
func (j *checker) delay() (delay between) {
	for i := range j.items {
		if it := &j.items[i]; it.v.queues {
			b := it.l.bucketDelay(it.v, j.now, it.cost)
			if it.l.bounded(it.v) || it.l.manyForms(it.v) {
				b = between{0, never}
			}
			delay = delay.and(b)
		}
	}
	return delay
}

// checkReceipt checks that At is the instant at which the units count, and Due the instant at
// which the request may pass, Delay from now.
func (j *checker) checkReceipt(d *sluice.Decision, at, delay, spent between) error {
	switch {
	case !at.has(int64(d.At)):
		return fmt.Errorf("receipt: At is %d, want %d to %d", d.At, at.lo, at.hi)
	case !delay.has(d.Delay.Microseconds()):
		return fmt.Errorf("receipt: a delay of %v, want %d to %d µs", d.Delay, delay.lo, delay.hi)
	case int64(d.Due) != j.now+d.Delay.Microseconds():
		return fmt.Errorf("receipt: Due is %d, want Delay from now, %d", d.Due, j.now+d.Delay.Microseconds())
	case !spent.has(d.Spent):
		return fmt.Errorf("spent: %d, want %d to %d", d.Spent, spent.lo, spent.hi)
	}
	return nil
}

// checkTakeUpTo checks that as many units are spent as every charge has, up to its cost, and
// that the request is denied if that is none.
func (j *checker) checkTakeUpTo(req *sluice.Request, id int, d *sluice.Decision) error {
	if req.Cost == 0 {
		return nil // the result for a cost of 0 is not stated
	}
	n := exactly(req.Cost)
	for i := range j.items {
		it := &j.items[i]
		n = n.atMost(it.l.remaining(it.v, j.now))
	}
	if !n.has(d.Spent) || d.Allowed != (d.Spent > 0) {
		return fmt.Errorf("take up to: got %d (allowed: %v), want %d to %d", d.Spent, d.Allowed, n.lo, n.hi)
	}
	if !d.Allowed {
		for i := range j.items {
			it := &j.items[i]
			it.cost = min(it.cost, 1)
			it.fits = j.fits(it, req)
		}
		j.deny(req, id)
		if err := j.checkRetry(j.all(), d); err != nil {
			return err
		}
	}
	for i := range j.items {
		j.items[i].cost = max(d.Spent, 1)
	}
	var delay between
	if d.Allowed {
		delay = j.delay()
	}
	if err := j.checkReceipt(d, exactly(j.now), delay, exactly(d.Spent)); err != nil {
		return err
	}
	if d.Allowed {
		j.spend(req, id, d, exactly(d.Spent))
	}
	return nil
}

// checkReserve checks that units are reserved at the earliest instant at which all limits fit,
// if that and the queues' delay are within MaxWait.
func (j *checker) checkReserve(req *sluice.Request, id int, d *sluice.Decision) error {
	patience := req.MaxWait.Microseconds()
	f := j.all()
	delay := j.delay().and(wait(f, j.now))
	if !d.Allowed {
		if delay.hi <= patience {
			return fmt.Errorf("liveness: denied within %v, but the delay is %d to %d µs", req.MaxWait, delay.lo, delay.hi)
		}
		if err := j.checkReceipt(d, exactly(j.now), between{}, between{}); err != nil {
			return err
		}
		return j.checkRetry(f.and(exactly(j.now)), d)
	}
	if delay.lo > patience || d.Delay > req.MaxWait {
		return fmt.Errorf("soundness: reserved within %v with a delay of %v, but %s", req.MaxWait, d.Delay, j.late(f.lo))
	}
	if err := j.checkReceipt(d, f, delay, exactly(req.Cost)); err != nil {
		return err
	}
	if d.At > d.Due {
		return fmt.Errorf("receipt: counts at %d but goes on at %d", d.At, d.Due)
	}
	j.spend(req, id, d, exactly(req.Cost))
	return nil
}

func wait(f between, now int64) between {
	w := between{f.lo - now, never}
	if f.hi != never {
		w.hi = f.hi - now
	}
	return w
}
