// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package denycache

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/sluicegate/sluice"
)

// call is a request on its way to the store.
type call struct {
	index int   // in its batch
	sent  int64 // before it was sent, in ns
	plain bool  // what the store answers may be remembered
	cost  int64
	rule  rule
	first leg
	more  []leg
}

// leg is one charge of a call.
type leg struct {
	stripe  *stripe // nil if the call was never entered
	key     uint64  // identity of scope and key
	plan    uint64  // identity of the limits
	seq     uint64  // when it was sent, in the order of its stripe
	unsound bool    // a denial decided before it may be wrong after it
}

// enter answers req into d if its denial is known. Else it notes that the
// request is on its way, and leave must follow; or it returns what to wait for
// before it is called again.
func (s *Store) enter(c *call, req *sluice.Request, d *sluice.Decision, waits bool) (known bool, wait <-chan struct{}) {
	c.sent = s.clock()
	c.cost = req.Cost
	c.plain = plain(req)
	c.first = s.leg(req.Op, &req.Charge)
	if c.plain {
		c.rule = ruleOf(req.Plan)
		known, wait = c.first.stripe.answer(c, d, waits)
		if known && req.Outcomes != nil {
			(*req.Outcomes)[0] = sluice.Outcome{Remaining: d.Remaining, RetryAfter: d.RetryAfter, ResetAfter: d.ResetAfter}
		}
		if known || wait != nil {
			return known, wait
		}
	} else {
		c.first.stripe.enter(&c.first)
	}
	if len(req.More) > 0 {
		c.more = make([]leg, len(req.More))
	}
	for i := range req.More {
		c.more[i] = s.leg(req.Op, &req.More[i])
		c.more[i].stripe.enter(&c.more[i])
	}
	return false, nil
}

// leave takes note of the store's answer.
func (s *Store) leave(c *call, d *sluice.Decision, err error) {
	if c.first.stripe == nil {
		return
	}
	changed := err != nil || d.Allowed
	var learnt denial
	if c.plain && err == nil && !d.Degraded {
		learnt = newDenial(c, d, s.clock(), s.age)
	}
	c.first.stripe.leave(&c.first, changed, &learnt)
	for i := range c.more {
		c.more[i].stripe.leave(&c.more[i], changed, &learnt)
	}
}

// leg returns the leg of a charge, not yet entered.
func (s *Store) leg(op sluice.Op, c *sluice.Charge) leg {
	key := s.keyed(c.Plan.ScopeID(), c.Key)
	// The upper bits choose the stripe, the lower ones its slots.
	st := &s.stripes[key>>32&uint64(len(s.stripes)-1)]
	return leg{stripe: st, key: key, plan: c.Plan.ID(), unsound: op == sluice.OpRefund || op == sluice.OpReset || op == sluice.OpCharge}
}

// keyed returns what stands for a key: a hash under this Store's own secret, so
// that no one can choose keys that meet. Two of them meet by chance with odds
// of 1 in 2^64.
func (s *Store) keyed(scope uint64, key string) uint64 {
	var raw [16]byte
	binary.LittleEndian.PutUint64(raw[:], scope)
	binary.LittleEndian.PutUint64(raw[8:], maphash.String(s.seed, key))
	return maphash.Bytes(s.seed, raw[:])
}

// plain reports whether a denial of req may be remembered: nothing but the
// passing of time, or giving units back, can change it.
func plain(req *sluice.Request) bool {
	if req.Op != sluice.OpTake || len(req.More) > 0 || req.MaxWait > 0 || req.Slot != nil {
		return false
	}
	n := req.Plan.Len()
	if n > 1 && req.Outcomes != nil {
		return false // what the limits that do not bind have to say is not kept
	}
	for i := range n {
		if t := req.Plan.Term(i); t.CountDenied || t.Withheld > 0 || t.PreFilled {
			return false
		}
	}
	return true
}
