// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
)

// Unshapeable returns the reason why a limit cannot slow bytes down, if each part of them
// waits for maxWait at most, and the text to write instead. It returns "" if the limit can. A
// maxWait of 0 is a minute.
func Unshapeable(l sluice.Limit, maxWait time.Duration) string {
	if maxWait == 0 {
		maxWait = bounds.ShapeTurn
	}
	f := l.Filled()
	if f.Unit != sluice.Bytes || f.Quota < 1 || f.Window <= 0 {
		return "" // another fault
	}
	full, wait := f.Quota, f.Window
	one := time.Duration(float64(bounds.LeastShaped) / float64(f.Quota) * float64(f.Window)) // about the wait for them
	switch a := f.Algorithm.(type) {
	case sluice.TokenBucket:
		full = f.Burst
		if a.Refill == sluice.Continuous {
			wait = one + a.WarmUp/2 // of a cold key
		}
	case sluice.LeakyBucket:
		full, wait = f.Burst, one
	case sluice.SlidingCounter:
		wait *= 2
	default: // units come back within the window
	}
	switch {
	case f.CountDenied:
		return "counts what is denied, and bytes that are slowed down are not; leave out count-denied"
	case f.Debt > 0:
		return "has a debt, which is of bytes that are counted after they have passed; leave it out"
	case full < bounds.LeastShaped:
		return fmt.Sprintf("grants at most %d bytes at once; it must be %d or more, so write a burst, such as burst 1KB", full, bounds.LeastShaped)
	case wait > maxWait:
		return fmt.Sprintf("may hold bytes back for %v, and they wait for %v at most before they are cut off; use a bucket with a higher quota, such as 1MB/s burst 1MB", wait.Round(time.Second), maxWait)
	default:
		return ""
	}
}

// Unserved returns the reason why a protocol that has or lacks bodies and responses cannot
// serve the rule, and a remedy. It returns "" if the protocol can.
func (r *Rule) Unserved(bodies, responses bool) string {
	inFlight := slices.ContainsFunc(r.Levels, func(l Level) bool { return l.InFlight != nil })
	switch {
	case !bodies && r.Shape:
		return "slows bodies down, and there are none here; let it deny or wait"
	case !responses && (r.When != nil || inFlight || r.Cost.Afterwards() && r.Cost.Of != RequestBytes):
		return "waits for a response or limits what is in flight, and there is no response here; let it charge when the request comes"
	default:
		return ""
	}
}

// shape finds faults of a rule that shapes.
func (c *compiler) shape(r *rule) {
	if !r.Shape {
		return
	}
	if !r.Cost.bytes() {
		c.fault(in("Shape"), "slows bodies down, but the rule counts requests; set the cost to request-bytes or response-bytes")
	}
	if r.Shadow {
		c.fault(in("Shape"), "slows down, and a shadow rule must not; leave out one of them")
	}
	if r.When != nil {
		c.fault(in("Shape"), "slows down bytes before the response is known; leave out one of them")
	}
	if r.Status != 0 {
		c.fault(in("Status"), "is that of a denial, and a rule that shapes denies nothing; leave it out")
	}
	if r.RetryJitter != (Jitter{}) {
		c.fault(in("RetryJitter"), "is about when to come again after a denial, and a rule that shapes denies nothing; leave it out")
	}
	for i := range r.Levels {
		at := in("Levels").item(i)
		if r.Levels[i].InFlight != nil {
			c.fault(at.in("InFlight"), "denies, and a rule that shapes does not; put it into a rule of its own")
		}
		if len(r.Levels[i].Candidates) > 0 {
			c.fault(at.in("Candidates"), "has no effect in a rule with shape, which denies nothing; leave them out")
		}
	}
}
