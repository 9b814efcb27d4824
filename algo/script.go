// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"time"

	"github.com/sluicegate/sluice"
)

// The functions of this file are for a store that decides in a script, and for a store that
// must ask several servers before it knows the result of a request.

// Horizon returns the furthest, in µs, that the Idle of a state of t may be ahead of now.
// A state further ahead is from before the clock stepped back.
func Horizon(t *sluice.Term) int64 { return counterOf(t).horizon(t) }

// DecidePart decides a part of req as [Decide] does: items are the limits whose states the
// caller has, and the other limits are decided elsewhere. With denied, one of the others
// denies an OpTake, and DecidePart denies it even if none of items does. No unit of an
// OpReserve or OpCharge is spent earlier than least from now, when the other limits have their
// turn. The result turn is the time from now until an OpCharge counts: after the units that
// are reserved in the states.
func DecidePart(req *sluice.Request, items []Item, now int64, denied bool, least time.Duration) (d sluice.Decision, turn time.Duration) {
	now = clamp(now)
	if holding(req, items) {
		d = decideHeld(req, items, now, func(req *sluice.Request) sluice.Decision {
			d, turn = DecidePart(req, items, now, denied, least)
			return d
		})
		return d, turn
	}
	r := round{req: req, items: items, now: now, least: least.Microseconds()}
	switch {
	case denied:
		r.prepare()
		for i := range items {
			it := &items[i]
			it.wait = r.wait(it, it.Cost)
		}
		d = r.deny()
	case least > 0 && req.Op == sluice.OpCharge:
		r.prepare()
		d = r.charge()
	case least > 0:
		r.prepare()
		d = r.take(sluice.OpReserve)
	default:
		d = Decide(req, items, now)
	}
	return d, micros(turnOf(items, now))
}

// turnOf returns the turn of [DecidePart], in µs.
func turnOf(items []Item, now int64) (wait int64) {
	for i := range items {
		it := &items[i]
		if it.State.Reserved {
			wait = max(wait, counterOf(it.Term).instant(it.Term, &it.State)-now)
		}
		wait = max(wait, min(it.State.Since-now, maxWait)) // a longer wait is from before the clock stepped back
	}
	return wait
}

// Binds reports whether outcome o of a limit charged cost binds more than
// outcome p of a limit charged other. The limit that denies for longest binds most or, if
// all allow, the limit with the least left in relation to its cost.
func Binds(o *sluice.Outcome, cost int64, p *sluice.Outcome, other int64) bool {
	d := sluice.Decision{TooLarge: p.TooLarge, Remaining: p.Remaining, RetryAfter: p.RetryAfter}
	return binds(o, cost, &d, other)
}
