// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/span"
)

// MaxTTL is the longest TTL, and the default where windows are long.
const (
	MaxTTL     = time.Minute
	DefaultTTL = time.Second // at most, where Terms name none
)

// Drift bounds how much clocks may differ in rate: by one part in Drift.
// Clocks that are kept by NTP differ by half of that at most.
const Drift = 1000

// How many default TTLs there are in a window that slides, in the time in which
// a burst refills, and between edges; and how many default leases in a full key.
const (
	windowParts = 32
	burstParts  = 16
	edgeParts   = 3
	unitParts   = 100
)

// Terms are how the units of a plan are leased. The zero value is ready to use.
type Terms struct {
	// TTL is how long leased units may be used: whole µs, at most MaxTTL. A
	// longer TTL serves keys in less demand and costs more, see [Under]. Zero
	// means 1/32 of the window of a log or histogram, 1/16 of the time in which
	// a bucket's burst refills and a third of any other window or sub-window: the
	// shortest of the plan's, at most [DefaultTTL].
	TTL time.Duration
	// Units is the most units of one lease. Zero means 1/100 of what the
	// smallest limit holds, at least 1, which leases nothing. A node asks for
	// fewer if it has seen demand for fewer within a TTL.
	Units int64
	// Nodes, if not zero, makes leases smaller as a key fills up: at most
	// 1/(2·Nodes) of the room that the store last told of, down to 1. Denials
	// are then nearly exact and cost more calls.
	Nodes int
}

// Validate returns nil or what is wrong with the terms, joined, whatever they
// are for.
func (t Terms) Validate() error {
	var faults []error
	if t.TTL < 0 || t.TTL > MaxTTL || t.TTL%time.Microsecond != 0 {
		faults = append(faults, fmt.Errorf("a TTL of %v must be whole microseconds up to %v, or 0 for the default", t.TTL, MaxTTL))
	}
	if t.Units < 0 || t.Units > sluice.MaxQuota {
		faults = append(faults, fmt.Errorf("leases of %d Units must have 1 to %d, or 0 for the default", t.Units, int64(sluice.MaxQuota)))
	}
	if t.Nodes < 0 || t.Nodes > 1<<20 {
		faults = append(faults, fmt.Errorf("%d Nodes must be 1 to %d, or 0 for leases of a fixed size", t.Nodes, 1<<20))
	}
	return errors.Join(faults...)
}

// LimitError is a limit of a plan that cannot be leased.
type LimitError struct {
	Index int          // in the plan
	Limit sluice.Limit // with every default filled in
	Err   error        // why
}

// Error names the limit and says why.
func (e *LimitError) Error() string {
	return fmt.Sprintf("limit %q (%v): %v", e.Limit.Name, e.Limit, e.Err)
}

// Unwrap returns Err.
func (e *LimitError) Unwrap() error { return e.Err }

// terms is a plan made ready for leasing.
type terms struct {
	plan     *sluice.Plan // what the store is given
	ttl      int64        // µs
	units    int64
	nodes    int64
	full     int64 // the largest cost that can fit
	deniable bool  // denials may be remembered
	returns  bool  // units that come back unused after a TTL still count
	err      error // why it cannot be leased
}

// Check returns nil if plan can be leased under the terms, or every reason why
// not: joined, each limit's a [*LimitError].
func Check(plan *sluice.Plan, t Terms) error {
	if plan == nil {
		return errors.New("lease: plan is nil; make one with sluice.Compile")
	}
	return derive(plan, t).err
}

// derive returns the terms of plan, whose err says what is wrong with them.
func derive(plan *sluice.Plan, given Terms) *terms {
	var faults []error
	if err := given.Validate(); err != nil {
		faults = append(faults, err)
	}
	t := &terms{plan: plan, nodes: int64(given.Nodes), deniable: true, returns: true}
	if len(faults) == 0 {
		t.ttl = ttlOf(plan, given).Microseconds()
		limits := make([]sluice.Limit, plan.Len())
		for i := range limits {
			term := plan.Term(i)
			l, err := stricter(term, t.ttl)
			if err != nil {
				faults = append(faults, &LimitError{Index: i, Limit: term.Limit, Err: err})
			}
			limits[i] = l
			if i == 0 || l.Full() < t.full {
				t.full = l.Full()
			}
			t.returns = t.returns && logs(term)
			t.deniable = t.deniable && l.Withheld == 0 && !l.PreFilled
		}
		t.units = given.Units
		if t.units == 0 {
			t.units = t.full / unitParts
		}
		t.units = max(min(t.units, t.full), 1)
		if len(faults) == 0 {
			if p, err := sluice.Compile(plan.Scope(), limits...); err != nil {
				faults = append(faults, err)
			} else {
				t.plan = p
			}
		}
	}
	if len(faults) > 0 {
		t.err = fmt.Errorf("lease: scope %q: %w", plan.Scope(), errors.Join(faults...))
		return t
	}
	return t
}

// ttlOf returns the TTL of a plan under the terms.
func ttlOf(plan *sluice.Plan, given Terms) time.Duration {
	if given.TTL > 0 {
		return given.TTL
	}
	ttl := DefaultTTL
	for i := range plan.Len() {
		t := plan.Term(i)
		length := t.Sub / edgeParts
		switch {
		case refills(t):
			length = t.Reach.Ceil() / burstParts
		case logs(t):
			length = t.Micros / windowParts
		}
		ttl = min(ttl, time.Duration(length)*time.Microsecond)
	}
	return max(ttl.Truncate(time.Microsecond), time.Microsecond)
}

// logs reports whether t keeps units with their instants.
func logs(t *sluice.Term) bool {
	return t.Algorithm == sluice.SlidingLog || t.Algorithm == sluice.SlidingHistogram
}

// refills reports whether t is a bucket that refills continuously.
func refills(t *sluice.Term) bool {
	return t.Algorithm == sluice.LeakyBucket || t.Algorithm == sluice.TokenBucket && t.Refill == sluice.Continuous
}

// stricter returns the limit that keeps t's promise for units that are used up
// to ttl µs after they were granted.
func stricter(t *sluice.Term, ttl int64) (sluice.Limit, error) {
	l := t.Limit
	switch {
	case t.CountDenied:
		return l, errors.New("counts denied requests, which a lease would not tell it of; leave out count-denied or the lease")
	case t.Queues():
		return l, errors.New("holds requests back in one queue, which nodes cannot share; write nodelay or leave out the lease")
	case logs(t):
		l.Window += time.Duration(ttl) * time.Microsecond
		if l.Window > sluice.MaxWindow {
			return l, fmt.Errorf("its window and a TTL of %v are longer than %v; shorten either", time.Duration(ttl)*time.Microsecond, sluice.MaxWindow)
		}
	case refills(t):
		given := refill(t, ttl)
		if given >= l.Burst {
			return l, fmt.Errorf("its burst of %d refills within a TTL of %v, which leaves nothing to lease; raise the burst or shorten the TTL",
				l.Burst, time.Duration(ttl)*time.Microsecond)
		}
		l.Burst -= given
		l.Withheld = max(l.Withheld-given, 0)
		if t.Algorithm == sluice.LeakyBucket {
			l.DelayAfter = l.Burst
		}
	}
	return l, nil
}

// refill returns how many units a bucket refills in ttl µs, rounded up.
func refill(t *sluice.Term, ttl int64) int64 {
	length := span.Span{Micros: ttl}
	n := t.Rate.Units(length)
	if n < sluice.MaxQuota && t.Rate.Times(n).Less(length) {
		n++
	}
	return n
}

// usable returns for how long after instant at, in µs, units may be used that
// count from then on: the TTL, or up to the next edge of a limit, and whether
// that cut it. outcomes are what the limits had to say wait µs before.
func (t *terms) usable(at, wait int64, outcomes []sluice.Outcome) (ttl int64, cut bool) {
	ttl = t.ttl
	for i := range outcomes {
		term, edge := t.plan.Term(i), int64(-1)
		reset := outcomes[i].ResetAfter.Microseconds() - wait
		switch {
		case term.Algorithm == sluice.FixedWindow:
			edge = reset
		case term.Algorithm == sluice.SlidingCounter:
			edge = term.Sub - at%term.Sub
		case term.Algorithm == sluice.TokenBucket && term.Refill == sluice.Interval:
			edge = (reset-1)%term.Micros + 1
		}
		// A use less than so long after at, in whole µs, is before the edge.
		if edge >= 0 && edge-1 <= ttl {
			ttl, cut = max(edge-1, 0), true
		}
	}
	return ttl, cut
}
