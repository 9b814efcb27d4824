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

// DecideLate decides req, an OpReserve or OpCharge, as [Decide] does, but spends its units
// no earlier than least from now. It serves requests whose other limits, decided elsewhere,
// have their turn only then.
func DecideLate(req *sluice.Request, items []Item, now int64, least time.Duration) sluice.Decision {
	r := round{req: req, items: items, now: clamp(now), least: least.Microseconds()}
	r.prepare()
	if req.Op == sluice.OpCharge {
		return r.charge()
	}
	return r.take(sluice.OpReserve)
}

// Turn returns the time from now until an OpCharge counts: after the units that are reserved
// in the states. A decision at now must have prepared the items.
func Turn(items []Item, now int64) time.Duration { return micros(turn(items, clamp(now))) }

// turn is Turn in µs, for a clamped instant.
func turn(items []Item, now int64) (wait int64) {
	for i := range items {
		it := &items[i]
		if it.State.Reserved {
			wait = max(wait, counterOf(it.Term).instant(it.Term, &it.State)-now)
		}
		wait = max(wait, min(it.State.Since-now, maxWait)) // a longer wait is from before the clock stepped back
	}
	return wait
}

// Deny decides req, an OpTake, as [Decide] does if one of its limits denies, even if none
// of items does. It serves requests that a limit decided elsewhere denies.
func Deny(req *sluice.Request, items []Item, now int64) sluice.Decision {
	r := round{req: req, items: items, now: clamp(now)}
	r.prepare()
	for i := range items {
		it := &items[i]
		it.wait = r.wait(it, it.Cost)
	}
	return r.deny()
}

// Binds reports whether outcome o of a limit charged cost binds more than
// outcome p of a limit charged other. The limit that denies for longest binds most or, if
// all allow, the limit with the least left in relation to its cost.
func Binds(o *sluice.Outcome, cost int64, p *sluice.Outcome, other int64) bool {
	d := sluice.Decision{TooLarge: p.TooLarge, Remaining: p.Remaining, RetryAfter: p.RetryAfter}
	return binds(o, cost, &d, other)
}
