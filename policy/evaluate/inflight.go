// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package evaluate

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/caller"
	"github.com/sluicegate/sluice/policy"
)

// InFlight is a limit of requests in flight, and its decision.
type InFlight struct {
	Rule     *policy.Rule        `json:"-"`
	Level    *policy.Level       `json:"-"`
	Key      string              `json:"-"`
	Limit    sluice.SlotLimit    `json:"limit"`
	Decision sluice.SlotDecision `json:"decision"`
}

// hold is a slot of a request.
type hold struct {
	level *level
	key   string
	held  bool
	// doubtful says that the store may have granted the slot although it returned an error.
	doubtful bool
	degraded bool // a failure policy granted it
}

var errNoSlots = errors.New("evaluate: a rule limits requests in flight, and the store keeps no slots; set Options.Slots")

func (h *hold) ask(op sluice.SlotOp, owner string) sluice.SlotRequest {
	return sluice.SlotRequest{Op: op, Scope: h.level.Scope, Limit: h.level.Slots, Key: h.key, Owner: owner, Cost: 1}
}

// joins reports whether the store is to decide the request's only slot in one call with its
// units. That call must then charge nothing else, as nothing is charged for a request without
// a slot.
func (v *Verdict) joins() bool {
	if v.opens != nil || v.needs&needsHold != 0 || len(v.holds) != 1 || v.holds[0].level.rule.Shadow || !v.evaluator.ownSlots || len(v.asks) == 0 {
		return false
	}
	for i := range v.asks {
		if k := &v.asks[i]; i == 0 && (k.role != taken || k.n > sluice.MaxCharges) || i > 0 && !k.peek {
			return false
		}
	}
	if op, _, _ := v.wait(&v.asks[0]); op != sluice.OpTake {
		return false
	}
	v.joint, v.owner = true, rand.Text()
	v.slot = sluice.Slot{SlotRequest: v.holds[0].ask(sluice.SlotAcquire, v.owner)}
	return true
}

// slotDenies reports whether the slot in the joint call denied the request.
func (v *Verdict) slotDenies() bool {
	return v.joint && v.asks[0].result.Err == nil && v.slot.Decision.RetryAfter > 0
}

// askWithSlot sends all charges to the store, and keeps the result of a slot in the joint
// call. It reports whether the slots allow the request.
func (v *Verdict) askWithSlot(ctx context.Context) bool {
	v.ask(ctx)
	if v.joint && errors.Is(v.asks[0].result.Err, sluice.ErrNoSlots) {
		// A wrapped store keeps no slots: the rule's failure policy applies to them, and
		// the units count.
		if v.joint = false; !v.acquire(ctx) {
			return false
		}
		v.ask(ctx)
	}
	if !v.joint {
		return true
	}
	h, r := &v.holds[0], &v.asks[0].result
	h.held = r.Err == nil && v.slot.Decision.Allowed
	h.doubtful = r.Err != nil && !unspent(r.Err)
	h.degraded = h.held && v.slot.Decision.Degraded
	v.degraded = v.degraded || h.degraded
	if v.slotDenies() {
		v.deniedBy(h, v.slot.Decision)
		return false
	}
	return true
}

// unspent reports whether an error says that its request has spent nothing.
func unspent(err error) bool {
	_, refused := errors.AsType[*sluice.RequestError](err)
	_, unsent := errors.AsType[*sluice.NotSentError](err)
	return refused || unsent
}

func (v *Verdict) deniedBy(h *hold, d sluice.SlotDecision) {
	v.InFlight = &InFlight{Rule: h.level.rule.Rule, Level: h.level.Level, Key: h.key, Limit: h.level.Slots, Decision: d}
	v.Decision.TooLarge, v.Decision.RetryAfter = d.TooLarge, d.RetryAfter
}

// acquire takes all slots of the request, before anything is charged. It reports whether the
// request may pass; if not, the request holds no slot.
func (v *Verdict) acquire(ctx context.Context) bool {
	if len(v.holds) == 0 {
		return true
	}
	v.owner = rand.Text()
	for i := range v.holds {
		h := &v.holds[i]
		var d sluice.SlotDecision
		err := errNoSlots
		if v.evaluator.slots != nil {
			d, err = v.evaluator.slots.Slot(ctx, h.ask(sluice.SlotAcquire, v.owner))
		}
		h.held = err == nil && d.Allowed
		h.doubtful = v.evaluator.slots != nil && err != nil && !unspent(err)
		h.degraded = h.held && d.Degraded
		v.degraded = v.degraded || h.degraded
		switch {
		case h.level.rule.Shadow:
			v.sideErrs = append(v.sideErrs, Trial{Rule: h.level.rule.Rule, Level: h.level.Level, Shadow: true, Allowed: h.held, Err: err})
		case err != nil:
			v.Err = errors.Join(v.Err, err)
			v.Failure = max(v.Failure, h.level.rule.Failure)
			if caller.Left(ctx) != nil {
				v.Failure = sluice.FailClosed // the caller did not wait for the store
			}
			if v.Failure != sluice.FailOpen {
				v.Err = errors.Join(v.Err, v.release(ctx))
				return false
			}
		case !d.Allowed:
			v.deniedBy(h, d)
			v.Err = errors.Join(v.Err, v.release(ctx))
			return false
		}
	}
	return true
}

// release gives back the slots that the request holds.
func (v *Verdict) release(ctx context.Context) error {
	if len(v.holds) == 0 {
		return nil
	}
	ctx, cancel := bounds.Undo(ctx)
	defer cancel()
	var errs []error
	for i := range v.holds {
		h := &v.holds[i]
		if !h.held && !h.doubtful {
			continue
		}
		h.held, h.doubtful = false, false
		_, err := v.evaluator.slots.Slot(ctx, h.ask(sluice.SlotRelease, v.owner))
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keepSlots lets the request's slots expire rather than releasing them.
func (v *Verdict) keepSlots() {
	for i := range v.holds {
		v.holds[i].held, v.holds[i].doubtful = false, false
	}
}

// lease returns the time for which the request's slots are held without a call of renew; 0 if
// it holds none.
func (v *Verdict) lease() time.Duration {
	var least time.Duration
	for i := range v.holds {
		if h := &v.holds[i]; h.held && (least == 0 || h.level.Slots.TTL < least) {
			least = h.level.Slots.TTL
		}
	}
	return least
}

// renew holds the slots of a long request for another lease. A slot that expired during
// an outage of the store is acquired anew. It reports whether all slots are held; a
// slot that is not was taken by another request.
func (v *Verdict) renew(ctx context.Context) (bool, error) {
	all := true
	var errs []error
	for i := range v.holds {
		h := &v.holds[i]
		if !h.held {
			continue
		}
		d, err := v.evaluator.slots.Slot(ctx, h.ask(sluice.SlotRenew, v.owner))
		if err == nil && !d.Allowed {
			d, err = v.evaluator.slots.Slot(ctx, h.ask(sluice.SlotAcquire, v.owner))
		}
		all = all && err == nil && d.Allowed
		errs = append(errs, err)
	}
	return all, errors.Join(errs...)
}
