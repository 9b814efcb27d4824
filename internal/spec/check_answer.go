// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"math/bits"

	"github.com/sluicegate/sluice"
)

// asks sends two peeks before a request. As a peek changes nothing, both have the same answer,
// which is also that of a take.
func (j *checker) asks(req *sluice.Request) error {
	peek := *req
	peek.Op = sluice.OpPeek
	one, err := j.ask(&peek)
	if err != nil {
		return err
	}
	two, err := j.ask(&peek)
	if err != nil {
		return err
	}
	if one != two {
		return fmt.Errorf("unchanged: a peek changes nothing, but the answers of two are %+v and %+v", one, two)
	}
	if req.Op != sluice.OpTake {
		return nil
	}
	return j.checkPeeked(&one, req)
}

// checkPeeked checks a peek as the take for which it stands.
func (j *checker) checkPeeked(d *sluice.Decision, req *sluice.Request) error {
	peek := *req
	peek.Op = sluice.OpPeek
	if err := j.checkTake(&peek, 0, d); err != nil {
		return fmt.Errorf("peek: %w", err)
	}
	return j.checkAnswer(&peek, d)
}

// checkAnswer checks Remaining and ResetAfter of the limit that binds, or of every limit if
// the request has Outcomes.
func (j *checker) checkAnswer(req *sluice.Request, d *sluice.Decision) error {
	if d.Binding < 0 || d.Binding >= len(j.items) {
		return fmt.Errorf("binding: limit %d of %d", d.Binding, len(j.items))
	}
	o := sluice.Outcome{Allowed: d.Allowed, TooLarge: d.TooLarge, Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
	if req.Outcomes == nil {
		return j.checkOutcome(&j.items[d.Binding], &o)
	}
	b := &(*req.Outcomes)[d.Binding]
	if b.Remaining != o.Remaining || b.TooLarge != o.TooLarge || b.RetryAfter != o.RetryAfter || b.ResetAfter != o.ResetAfter {
		return fmt.Errorf("binding: the decision is %+v, the outcome of the limit that binds %+v", *d, *b)
	}
	for i := range j.items {
		out := &(*req.Outcomes)[i]
		if err := j.checkOutcome(&j.items[i], out); err != nil {
			return fmt.Errorf("limit %d: %w", i, err)
		}
		if out.RetryAfter > b.RetryAfter || out.TooLarge && !b.TooLarge {
			return fmt.Errorf("binding: limit %d denies for %v, limit %d binds for %v", i, out.RetryAfter, d.Binding, b.RetryAfter)
		}
		if d.Allowed && lessProduct(out.Remaining, j.items[d.Binding].weight(), b.Remaining, j.items[i].weight()) {
			return fmt.Errorf("binding: limit %d has %d left, limit %d binds with %d", i, out.Remaining, d.Binding, b.Remaining)
		}
	}
	return nil
}

// weight returns the cost to which Remaining is related.
func (it *item) weight() int64 { return max(it.cost, 1) }

func lessProduct(a, b, c, d int64) bool {
	h1, l1 := bits.Mul64(uint64(a), uint64(b))
	h2, l2 := bits.Mul64(uint64(c), uint64(d))
	return h1 < h2 || h1 == h2 && l1 < l2
}

// checkOutcome checks that Remaining is what a take at now may spend, and ResetAfter the time
// until the key is idle.
func (j *checker) checkOutcome(it *item, o *sluice.Outcome) error {
	if want := it.l.remaining(it.v, j.now); !want.has(o.Remaining) {
		return fmt.Errorf("remaining: %d under [%s], want %d to %d", o.Remaining, it.v.text, want.lo, want.hi)
	}
	if want := it.l.reset(it.v, j.now); !want.has(o.ResetAfter.Microseconds()) {
		return fmt.Errorf("reset after: %v under [%s], want %d to %d µs", o.ResetAfter, it.v.text, want.lo, want.hi)
	}
	return nil
}
