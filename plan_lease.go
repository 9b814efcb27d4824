// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sluice

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// The number of default TTLs in a sliding window, in the refill of a burst, and in a fixed
// window or a sub-window; and the number of default leases in a full key.
const (
	windowParts = 32
	burstParts  = 16
	edgeParts   = 3
	unitParts   = 100
)

// LeaseTerms are the terms of leases: units of a plan that are taken from the store in
// advance and spent without asking it. The zero value is ready to use.
type LeaseTerms struct {
	// TTL is how long leased units may be used: whole µs, at most 1 min. A
	// longer TTL serves keys in less demand and costs more of the limit. Zero
	// means the shortest default of the plan's limits, at most 1 s: 1/32 of the window of a
	// log or histogram, 1/16 of the time in which a bucket's burst refills, and a third of
	// any other window or sub-window.
	TTL time.Duration
	// Units is the most units of one lease. Zero means 1/100 of the units that the
	// smallest limit holds, at least 1. A lease of 1 unit leases nothing. A node asks for
	// fewer if it has seen demand for fewer within a TTL.
	Units int64
	// Nodes, if not zero, makes leases smaller as a key fills up: at most
	// 1/(2·Nodes) of the room that the store last reported, down to 1. Denials
	// are then nearly exact and cost more calls.
	Nodes int
}

// Validate returns nil or all faults of the terms, joined. It does not look at a plan.
func (t LeaseTerms) Validate() error {
	var faults []error
	if t.TTL < 0 || t.TTL > bounds.MaxLeaseTTL || t.TTL%time.Microsecond != 0 {
		faults = append(faults, fmt.Errorf("a TTL of %v must be whole microseconds up to %v, or 0 for the default", t.TTL, bounds.MaxLeaseTTL))
	}
	if t.Units < 0 || t.Units > MaxQuota {
		faults = append(faults, fmt.Errorf("leases of %d Units must have 1 to %d, or 0 for the default", t.Units, int64(MaxQuota)))
	}
	if t.Nodes < 0 || t.Nodes > 1<<20 {
		faults = append(faults, fmt.Errorf("%d Nodes must be 1 to %d, or 0 for leases of a fixed size", t.Nodes, 1<<20))
	}
	return errors.Join(faults...)
}

// LeaseError is a limit of a plan that cannot be leased.
type LeaseError struct {
	Index int   // in the plan
	Limit Limit // with every default filled in
	Err   error // the reason
}

// Error names the limit and says why.
func (e *LeaseError) Error() string {
	return fmt.Sprintf("limit %q (%v): %v", e.Limit.Name, e.Limit, e.Err)
}

// Unwrap returns Err.
func (e *LeaseError) Unwrap() error { return e.Err }

// Lease returns a plan that keeps the promises of p's limits although units are used up to
// a TTL after their grant, and the terms with their defaults filled in. The error joins
// every reason why p cannot be leased: a [*LeaseError] for each limit.
func (p *Plan) Lease(t LeaseTerms) (*Plan, LeaseTerms, error) {
	if err := t.Validate(); err != nil {
		return nil, t, err
	}
	if t.TTL == 0 {
		t.TTL = p.leaseTTL()
	}
	var faults []error
	limits := make([]Limit, p.Len())
	for i := range limits {
		term := p.Term(i)
		l, err := term.stricter(t.TTL.Microseconds())
		if err != nil {
			faults = append(faults, &LeaseError{Index: i, Limit: term.Limit, Err: err})
		}
		limits[i] = l
	}
	if len(faults) > 0 {
		return nil, t, errors.Join(faults...)
	}
	leased, err := Compile(p.Scope(), limits...)
	if err != nil {
		return nil, t, err
	}
	full := leased.Term(0).Full
	for i := range limits {
		full = min(full, leased.Term(i).Full)
	}
	if t.Units == 0 {
		t.Units = full / unitParts
	}
	t.Units = max(min(t.Units, full), 1)
	return leased, t, nil
}

// leaseTTL returns the default TTL of p.
func (p *Plan) leaseTTL() time.Duration {
	ttl := bounds.DefaultLeaseTTL
	for i := range p.Len() {
		t := p.Term(i)
		length := t.Sub / edgeParts
		switch {
		case t.refills():
			length = t.Reach.Ceil() / burstParts
		case t.logs():
			length = t.Micros / windowParts
		}
		ttl = min(ttl, time.Duration(length)*time.Microsecond)
	}
	return max(ttl.Truncate(time.Microsecond), time.Microsecond)
}

// logs reports whether t keeps the instants of units.
func (t *Term) logs() bool {
	return t.Kind == compiled.SlidingLog || t.Kind == compiled.SlidingHistogram
}

// refills reports whether t is a bucket that refills continuously.
func (t *Term) refills() bool {
	return t.Kind.Bucket() && t.Refill == Continuous
}

// stricter returns a limit that keeps t's promise although units are used up to ttl µs
// after their grant.
func (t *Term) stricter(ttl int64) (Limit, error) {
	l := t.Limit
	switch {
	case t.Kind == compiled.Block:
		return l, errors.New("counts denials, which a lease would hide from it; leave out the block or the lease")
	case t.CountDenied:
		return l, errors.New("counts denied requests, which a lease would hide from it; leave out count-denied or the lease")
	case t.NextWaits:
		return l, errors.New("has next-waits, by which all nodes wait for a take; leave out next-waits or the lease")
	case t.WarmUp > 0:
		return l, errors.New("warms a key up by the units that it uses, and a lease takes them before; leave out warm-up or the lease")
	case t.Credit > 0:
		return l, errors.New("has credit, which lapses while nodes hold units of it; leave out credit or the lease")
	case t.Queues:
		return l, errors.New("delays requests in one queue, which nodes cannot share; use nodelay or leave out the lease")
	case t.logs():
		l.Window += time.Duration(ttl) * time.Microsecond
		if l.Window > MaxWindow {
			return l, fmt.Errorf("its window and a TTL of %v are longer than %v; shorten either", time.Duration(ttl)*time.Microsecond, MaxWindow)
		}
	case t.refills():
		given := t.refilled(ttl)
		if given >= l.Burst {
			return l, fmt.Errorf("its burst of %d refills within a TTL of %v, which leaves nothing to lease; raise the burst or shorten the TTL",
				l.Burst, time.Duration(ttl)*time.Microsecond)
		}
		l.Burst -= given
		switch b := l.Algorithm.(type) {
		case TokenBucket:
			b.InitialDeficit = max(b.InitialDeficit-given, 0)
			l.Algorithm = b
		case LeakyBucket:
			l.Algorithm = LeakyBucket{DelayAfter: l.Burst}
		}
	}
	return l, nil
}

// refilled returns how many units a bucket refills in ttl µs, rounded up.
func (t *Term) refilled(ttl int64) int64 {
	length := span.Span{Micros: ttl}
	n := t.Rate.Units(length)
	if n < MaxQuota && t.Rate.Times(n).Less(length) {
		n++
	}
	return n
}
