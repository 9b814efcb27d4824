// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"fmt"
	"time"
)

// Instant is a moment on a store's clock: µs since 1970-01-01 UTC, never
// negative. Instants of different stores cannot be compared.
type Instant int64

// InstantOf returns t as an Instant, 0 if t is before 1970.
func InstantOf(t time.Time) Instant { return Instant(max(t.UnixMicro(), 0)) }

// Time returns i in UTC.
func (i Instant) Time() time.Time { return time.UnixMicro(int64(i)).UTC() }

// Op is the operation of a [Request]. The zero value is [OpTake].
type Op uint8

// The operations. Every Store does them all, on every algorithm.
const (
	// OpTake spends the cost of every charge, or nothing if one does not fit.
	OpTake Op = iota
	// OpPeek answers as OpTake would and changes nothing.
	OpPeek
	// OpRefund gives back Cost units that a decision spent, as far as they still count. It
	// also cancels a reservation. It never gives back more; docs/adr/0060-stated-inexactness.md
	// lists the cases in which it gives back less.
	OpRefund
	// OpCharge spends the cost whether it fits or not, up to full plus the limit's Debt. It
	// does not record units above that.
	OpCharge
	// OpTakeUpTo spends as many units as every charge has, up to its cost: the same number
	// of each charge, none of a charge with cost 0. It is denied if the number is 0.
	OpTakeUpTo
	// OpReserve spends the cost at the first instant at which it fits, if that is at most
	// MaxWait away; Delay is the time until then. Later takes of the key are decided no
	// earlier than that instant, so none overtakes it. A request over several keys may be
	// overtaken on one of them, by less than a window.
	OpReserve
	// OpReset deletes the state of every key charged. Receipts from before the reset refund
	// nothing.
	OpReset
	// OpAdd gives Cost units to every key charged, without a receipt: it takes back counted
	// units, in a window the newest first, and adds the rest as credit, as far as the limit
	// has one. A block gives nothing. Reservations keep their instants. As after a reset,
	// receipts from before, or from the same µs, refund nothing.
	OpAdd
	// OpConvert scales the balance of a key to a limit that has replaced another, in
	// proportion to their bursts: 60 units owed of 100 become 120 of 200, where otherwise
	// 60 stay owed. It changes buckets with continuous refill and no warm-up whose balance
	// another limit of the name wrote, unless units are reserved in it or the limit cannot
	// owe so much. It changes nothing else, so a second OpConvert has no effect.
	OpConvert
	// OpSettle ends a hold, named by Request.Hold, with Cost as the units that were really
	// used: it gives the rest of the held units back, or charges the missing units. It is
	// allowed whatever fits. The first settle counts: see [Decision].Hold.
	OpSettle
	// OpExtend sets the end of an open hold, named by Request.Hold, to its TTL from now,
	// unless it is later already. It charges nothing and is denied if the hold is not open.
	OpExtend
	ops
)

var opNames = [...]string{
	OpTake: "take", OpPeek: "peek", OpRefund: "refund", OpCharge: "charge",
	OpTakeUpTo: "take-up-to", OpReserve: "reserve", OpReset: "reset",
	OpAdd: "add", OpConvert: "convert", OpSettle: "settle", OpExtend: "extend",
}

// String returns the operation's name.
func (o Op) String() string { return nameOf(o, opNames[:], "Op") }

// Charge is units charged to one key under every limit of a plan.
type Charge struct {
	Plan *Plan
	Key  string // any bytes, up to MaxKeyBytes; the empty key is a key
	Cost int64  // units, 0 to MaxQuota; 0 asks for nothing and fits unless the key is in debt
	// Counted is, for OpRefund, how many units the receipt still counts: those spent less
	// those refunded before. Cost of them are given back. Zero means Cost. For OpSettle it
	// is the number of units held, which package remote reads.
	Counted int64
}

// Request asks a [Store] to carry out all its charges, or none. It is passed by value; a Store
// writes only to its Outcomes and to the Decision of its Slot.
type Request struct {
	Op Op
	Charge
	More []Charge // further charges, each of another plan or key

	// MaxWait is, for OpReserve, how long the caller would wait. For OpTake it
	// caps the delay of a leaky bucket that queues; zero leaves it to the limit.
	MaxWait time.Duration
	// At and Due are, for OpRefund, those of the decision that spent the units. Due is set
	// only to refund all of them at once. A refund of a part, or of the rest behind one,
	// has At alone, with the receipt's units in Charge.Counted.
	At  Instant `json:"at_us"`
	Due Instant `json:"due_us"`
	// Hold, if not nil, names the hold that OpTake opens, OpSettle settles or OpExtend
	// extends. OpPeek answers as that take would. A Store that keeps no holds answers with
	// [ErrNoHolds].
	Hold *Hold
	// Outcomes, if not nil, receives every limit's outcome: the limits of
	// Charge in their order, then those of More. It must have room for all.
	Outcomes *Outcomes
	// Slot, if not nil, is a slot that OpTake acquires with the units, or OpPeek
	// looks at: all are granted, or nothing. Its Decision is filled in. A Store
	// that is no SlotStore answers with ErrNoSlots.
	Slot *Slot
}

// Decision is the result of a [Request]. Denied is a decision, not an error.
type Decision struct {
	Allowed bool `json:"allowed"`
	// TooLarge says that the cost is more than a limit can ever hold: it is denied,
	// and no wait helps. RetryAfter is [MaxRetryAfter] then.
	TooLarge bool `json:"too_large,omitempty"`
	// Degraded says that the store could not be asked and a failure policy
	// decided in its place. Stores leave it false.
	Degraded bool `json:"degraded,omitempty"`
	// Hold is the state of the hold that the Request named, 0 if it named none.
	Hold HoldState `json:"hold,omitempty"`
	// Nodes is the number of nodes that shared the limits of a decision by [FailLocal], as
	// [Limit.Share] divides them. It is 0 for other decisions.
	Nodes int32 `json:"nodes,omitempty"`
	// Binding is the index of the limit that binds, as in Request.Outcomes: the one that
	// denied for longest, else the one with the least Remaining in relation to its cost.
	Binding int `json:"binding"`
	// Spent is how many units of the first charge were spent: the cost of an allowed take,
	// the units that OpTakeUpTo got or OpCharge recorded, the units that OpRefund and OpAdd
	// gave as a negative number, and the change of the balance by OpConvert.
	Spent int64 `json:"spent,omitempty"`
	// Remaining is how many units the binding limit has left to spend now.
	Remaining int64 `json:"remaining"`
	// RetryAfter is the time until this cost fits if no other request comes: 0 if allowed,
	// at most [MaxRetryAfter].
	RetryAfter time.Duration `json:"retry_after_ns"`
	// ResetAfter is the time until the binding limit's key is fully refilled.
	ResetAfter time.Duration `json:"reset_after_ns"`
	// Delay is how long to delay the request, though it is allowed: at most MaxWait for a
	// reservation, the queue of a leaky bucket for a take.
	Delay time.Duration `json:"delay_ns,omitempty"`
	// At is the instant at which the units count, and Due the instant at which the request may
	// pass, Delay from now. Together they are the receipt for OpRefund. For a
	// reservation both lie in the future. For units that Limiter.Settle charged, Due is the
	// instant at which these count.
	At  Instant `json:"at_us"`
	Due Instant `json:"due_us"`

	// charged is how many units of Spent Limiter.Settle charged: they count at Due, not at
	// At. With it the Decision has 80 bytes, which are copied in parts of 16.
	charged int64
}

// Outcome is one limit's result for a [Request].
type Outcome struct {
	Allowed    bool          `json:"allowed"`
	TooLarge   bool          `json:"too_large,omitempty"` // the cost is more than the limit can ever hold
	Remaining  int64         `json:"remaining"`           // units, as [Decision].Remaining
	RetryAfter time.Duration `json:"retry_after_ns"`
	ResetAfter time.Duration `json:"reset_after_ns"`
	// Spent is how many units were spent, negative if they were given back. OpCharge may
	// record more units under one limit than under another; a refund gives back, for each
	// key, no more than the limit with the least has recorded.
	Spent int64 `json:"spent,omitempty"`
}

// Outcomes are the outcomes of all limits of a [Request].
type Outcomes []Outcome

// All returns the outcomes, none if o is nil.
func (o *Outcomes) All() []Outcome {
	if o == nil {
		return nil
	}
	return *o
}

// Result is a [Decision], or the error of a request that has none.
type Result struct {
	Decision Decision
	Err      error
}

// RequestError is a [Request] that a Store cannot decide.
type RequestError struct {
	Field   string
	Problem string
}

// Error returns the fault with its field.
func (e *RequestError) Error() string { return "sluice: request: " + e.Field + ": " + e.Problem }

// Charges returns how many charges the request has.
func (r *Request) Charges() int { return 1 + len(r.More) }

// Nth returns the n-th charge: from 0, which is Charge, on into More.
func (r *Request) Nth(n int) *Charge {
	if n == 0 {
		return &r.Charge
	}
	return &r.More[n-1]
}

// Limits returns how many limits the request charges: the length that Outcomes
// needs.
func (r *Request) Limits() (n int) {
	for i := range r.Charges() {
		n += r.Nth(i).Plan.Len()
	}
	return n
}

// ChargeAt returns the charge of the i-th limit of the request, as in Outcomes, and the
// index of that limit in the charge's Plan. For an i out of range it returns the first.
func (r *Request) ChargeAt(i int) (c *Charge, term int) {
	term = max(i, 0)
	for n := range r.Charges() {
		if c = r.Nth(n); term < c.Plan.Len() {
			return c, term
		}
		term -= c.Plan.Len()
	}
	return &r.Charge, 0
}

// Validate returns nil or a [*RequestError]. Every Store calls it, so that
// stores refuse the same requests. It does not allocate for a valid request.
func (r *Request) Validate() error {
	if r.Op == OpTake && len(r.More) == 0 && r.MaxWait == 0 && r.Outcomes == nil && r.Slot == nil && r.Hold == nil {
		return r.Charge.validate(r.Op)
	}
	if r.Op >= ops {
		return &RequestError{"Op", fmt.Sprintf("%v is not an operation", r.Op)}
	}
	if err := r.Charge.validate(r.Op); err != nil {
		return err
	}
	if len(r.More) >= MaxCharges {
		return &RequestError{"More", fmt.Sprintf("%d charges; a request has at most %d", len(r.More)+1, MaxCharges)}
	}
	for i := range r.More {
		c := &r.More[i]
		if err := c.validate(r.Op); err != nil {
			return err
		}
		if c.same(&r.Charge) {
			return &RequestError{"More", fmt.Sprintf("charge %d is of the same scope and key as the first; add up their costs", i+2)}
		}
		for j := range r.More[:i] {
			if c.same(&r.More[j]) {
				return &RequestError{"More", fmt.Sprintf("charges %d and %d are of the same scope and key; add up their costs", j+2, i+2)}
			}
		}
	}
	if r.MaxWait < 0 || r.MaxWait > MaxWait {
		return &RequestError{"MaxWait", fmt.Sprintf("%v must be 0 to %v", r.MaxWait, MaxWait)}
	}
	if r.Op == OpRefund && r.At <= 0 {
		return &RequestError{"At", "a refund needs the instant of the decision that spent the units: pass its At"}
	}
	if n := r.Limits(); r.Outcomes != nil && len(*r.Outcomes) < n {
		return &RequestError{"Outcomes", fmt.Sprintf("room for %d of %d limits", len(*r.Outcomes), n)}
	}
	if r.Hold != nil || r.Op == OpSettle || r.Op == OpExtend {
		if err := r.validateHold(); err != nil {
			return err
		}
	}
	return r.validateSlot()
}

func (r *Request) validateSlot() error {
	switch {
	case r.Slot == nil:
		return nil
	case r.Op == OpTake && r.Slot.Op != SlotAcquire, r.Op == OpPeek && r.Slot.Op != SlotPeek, r.Op != OpTake && r.Op != OpPeek:
		return &RequestError{"Slot", fmt.Sprintf("%v does not go with slot operation %d; a take acquires a slot and a peek looks at one", r.Op, r.Slot.Op)}
	}
	return r.Slot.Validate()
}

func (c *Charge) validate(op Op) error {
	if c.Plan != nil && uint64(c.Cost) <= MaxQuota && len(c.Key) <= MaxKeyBytes && c.Counted == 0 {
		return nil
	}
	switch {
	case c.Plan == nil:
		return &RequestError{"Plan", "is nil; make one with Compile"}
	case c.Cost < 0:
		return &RequestError{"Cost", fmt.Sprintf("%d is negative; units are given back with a refund", c.Cost)}
	case c.Cost > MaxQuota:
		return &RequestError{"Cost", fmt.Sprintf("%d is more than %d", c.Cost, int64(MaxQuota))}
	case len(c.Key) > MaxKeyBytes:
		return &RequestError{"Key", fmt.Sprintf("%d bytes; a key has at most %d", len(c.Key), MaxKeyBytes)}
	case c.Counted < c.Cost && op != OpSettle || uint64(c.Counted) > MaxQuota:
		return &RequestError{"Counted", fmt.Sprintf("%d must be the cost of %d to %d, or 0 for the cost", c.Counted, c.Cost, int64(MaxQuota))}
	}
	return nil
}

// same reports whether two charges could count in the same state.
func (c *Charge) same(d *Charge) bool {
	return c.Key == d.Key && c.Plan.scope == d.Plan.scope
}
