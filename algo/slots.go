// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import "github.com/sluicegate/sluice"

// lease is a number of units held by one owner until an instant.
type lease struct {
	owner   uint64
	expires int64
	units   int64
}

const leaseWords = 3

// longestLease is the longest TTL, in µs.
const longestLease = int64(sluice.MaxWindow / 1000)

// leases reads and writes the leases of a state's Ring, which starts at Head 0.
// A is the sum of their units, Idle the latest of their ends.
type leases struct{ s *State }

func (l leases) at(i int) lease {
	w := l.s.Ring[i : i+leaseWords]
	return lease{owner: w[0], expires: int64(w[1]), units: int64(w[2])}
}

func (l leases) put(i int, e lease) {
	w := l.s.Ring[i : i+leaseWords]
	w[0], w[1], w[2] = e.owner, uint64(e.expires), uint64(e.units)
}

// remove replaces the i-th lease by the last.
func (l leases) remove(i int) {
	s := l.s
	s.A -= l.at(i).units
	s.Len -= leaseWords
	copy(s.Ring[i:i+leaseWords], s.Ring[s.Len:s.Len+leaseWords])
}

// DecideSlot decides a valid request for slots at instant now over the state
// of its key. owner is a number for req.Owner: equal owners must have equal numbers,
// different owners different ones. It reports whether the state must be kept; a state
// that is Zero then must be forgotten. It takes time in proportion to the
// number of holders.
func DecideSlot(req *sluice.SlotRequest, owner uint64, s *State, now int64) (d sluice.SlotDecision, written bool) {
	now = clamp(now)
	l := leases{s}
	ttl := req.Limit.TTL.Microseconds()
	mine := -1
	for i := s.Len - leaseWords; i >= 0; i -= leaseWords {
		e := l.at(i)
		if e.expires <= now {
			l.remove(i)
			written = true
			if mine == s.Len {
				mine = i
			}
			continue
		}
		if e.expires > now+longestLease { // the clock stepped back, and the holder may be alive
			e.expires = now + ttl
			l.put(i, e)
			written = true
		}
		if e.owner == owner {
			mine = i
		}
	}
	switch req.Op {
	case sluice.SlotAcquire, sluice.SlotRenew:
		switch {
		case mine >= 0:
			e := l.at(mine)
			e.expires = now + ttl
			l.put(mine, e)
			d.Allowed = true
		case req.Op == sluice.SlotAcquire && s.A+req.Cost <= req.Limit.Cap:
			if s.Len+leaseWords > len(s.Ring) {
				larger := make([]uint64, s.Len+max(s.Len, 2*leaseWords)/leaseWords*leaseWords)
				copy(larger, s.Ring[:s.Len])
				s.Ring = larger
			}
			l.put(s.Len, lease{owner: owner, expires: now + ttl, units: req.Cost})
			s.Len += leaseWords
			s.A += req.Cost
			d.Allowed = true
		}
		written = written || d.Allowed
	case sluice.SlotRelease:
		if mine >= 0 {
			l.remove(mine)
			d.Allowed, written = true, true
		}
	case sluice.SlotPeek:
		d.Allowed = mine >= 0 || s.A+req.Cost <= req.Limit.Cap
	}
	s.Idle = 0
	for i := 0; i < s.Len; i += leaseWords {
		s.Idle = max(s.Idle, l.at(i).expires)
	}
	d.Held, d.Free = s.A, max(req.Limit.Cap-s.A, 0)
	if (req.Op == sluice.SlotAcquire || req.Op == sluice.SlotPeek) && !d.Allowed {
		d.RetryAfter, d.TooLarge = retryAfter(l.free(req, now))
	}
	return d, written
}

// DenySlot returns the decision for a request that its slot denies at instant now:
// see [sluice.Slot].
func DenySlot(req *sluice.Request, now int64) sluice.Decision {
	clear(req.Outcomes.All())
	at := sluice.Instant(clamp(now))
	slot := &req.Slot.Decision
	return sluice.Decision{TooLarge: slot.TooLarge, RetryAfter: slot.RetryAfter, At: at, Due: at}
}

// free returns the longest time until req's units are free, in µs.
func (l leases) free(req *sluice.SlotRequest, now int64) int64 {
	if req.Cost > req.Limit.Cap {
		return never
	}
	// Leases are not sorted by their ends, so search for the instant at which
	// enough of them have ended.
	enough := func(at int64) bool {
		held := int64(0)
		for i := 0; i < l.s.Len; i += leaseWords {
			if e := l.at(i); e.expires > at {
				held += e.units
			}
		}
		return held+req.Cost <= req.Limit.Cap
	}
	early, late := now, l.s.Idle
	for late-early > 1 {
		if at := early + (late-early)/2; enough(at) {
			late = at
		} else {
			early = at
		}
	}
	return late - now
}
