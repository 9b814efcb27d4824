// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/compiled"
	"github.com/sluicegate/sluice/internal/span"
)

// left writes the counted units of a limit's size, and the units left for a take.
func left(what string, size, counts, room int64) string {
	return fmt.Sprintf("%s %d of %d: %d left", what, counts, size, room)
}

// reservedAhead is the remark about a limit with reservations. No take overtakes them.
const reservedAhead = "units are reserved: no request that comes now passes before these"

func (x *explainer) bucket(room int64) (lines []string) {
	t, s := x.it.Term, &x.it.State
	lines = append(lines, fmt.Sprintf("%d come back in %v, one every %v", t.Quota, t.Window, micros(t.Rate.One.Ceil())))
	if t.Rate.One.Rem > 0 {
		lines[0] = fmt.Sprintf("%d come back in %v, one about every %v", t.Quota, t.Window, micros(t.Rate.One.Micros))
	}
	owes, more := debt(t, s, x.now), credit(t, s)
	if warms(t) {
		owes = warmBucket{}.owed(t, s, x.now)
	}
	owed := thousandths(&t.Rate, owes)
	switch full := times(t.Burst, 1000); {
	case more > 0:
		lines = append(lines, fmt.Sprintf("burst %d, nothing owed, and credit %d until %s: %d left", t.Burst, more, x.at(s.Idle), t.Burst+more))
	case owed == math.MaxInt64:
		lines = append(lines, fmt.Sprintf("burst %d, more owed than can be written: 0 left", t.Burst))
	case owed > full:
		lines = append(lines, fmt.Sprintf("burst %d, %s owed: %s above the burst", t.Burst, decimal(owed), decimal(owed-full)))
	case full == math.MaxInt64:
		lines = append(lines, fmt.Sprintf("burst %d, %d owed: %d left", t.Burst, t.Burst-(room-t.Lent), room-t.Lent))
	default:
		lines = append(lines, fmt.Sprintf("burst %d, %s owed: %s left", t.Burst, decimal(owed), decimal(full-owed)))
	}
	if warms(t) {
		used := warmBucket{}.used(s, x.now)
		lines = append(lines, fmt.Sprintf("warm-up %v, %v of it used: until the key is warm, its units last %v longer in all", t.WarmUp, micros(used), micros(chill(t, used))))
	}
	if t.Lent > 0 {
		lines = append(lines, fmt.Sprintf("a take may spend %d more than is left, if nothing is owed above the burst: the next waits", t.Lent))
	}
	if s.fill != 0 {
		lines = append(lines, fmt.Sprintf("the rule withholds %d at its start: as many are earned by %s", t.InitialDeficit, x.at(span.Span{Micros: s.fill, Rem: s.fillRem}.Ceil())))
	}
	if (bucket{}).pending(t, s, x.now) {
		lines = append(lines, reservedAhead+" "+x.at(s.Last))
	}
	if t.Queues {
		lines = append(lines, fmt.Sprintf("a queue: %d pass at once, and those behind leave it one by one", t.DelayAfter))
	}
	return lines
}

func (x *explainer) interval(b intervalBucket) (lines []string) {
	t, s := x.it.Term, &x.it.State
	grid := "from the take that found it full"
	if t.Refill == sluice.Aligned {
		grid = "of the clock"
	}
	lines = append(lines, fmt.Sprintf("up to %d come back at once every %v %s", t.Quota, t.Window, grid))
	missing := b.missing(t, s, x.now)
	lines = append(lines, left("spent", t.Burst, missing, max(t.Burst-missing, 0)))
	if t.Lent > 0 {
		lines = append(lines, fmt.Sprintf("a take may spend %d more than is left: the next waits", t.Lent))
	}
	switch {
	case b.pending(t, s, x.now) || !s.Zero() && b.written(t, s) > x.now:
		lines = append(lines, reservedAhead+" "+x.at(max(b.written(t, s), s.Since)))
	case s.fill != 0:
		lines = append(lines, fmt.Sprintf("the rule withholds %d at its start, %s", t.InitialDeficit, x.at(s.fill)))
	case missing > 0:
		lines = append(lines, "the next come back at "+x.at(s.Idle-(ceilDiv(s.Idle-x.now, t.Micros)-1)*t.Micros))
	}
	return lines
}

func (x *explainer) fixed(w fixedWindow) (lines []string) {
	t, s := x.it.Term, &x.it.State
	if s.Zero() && t.OnFirst {
		return []string{fmt.Sprintf("no window is open: a take opens one of %v, with all %d left", t.Window, t.Quota)}
	}
	start, end := windowOf(t, x.now)
	if !s.Zero() {
		start, end = w.instant(t, s), s.Idle
	}
	used := int64(0)
	if !s.Zero() {
		used = w.used(t, s)
	}
	lines = append(lines, left(fmt.Sprintf("window %s to %s counts", strings.TrimSuffix(x.at(start), " UTC"), x.at(end)), t.Quota, used, max(t.Quota-used, 0)))
	if s.fill != 0 && !s.Reserved {
		lines = append(lines, fmt.Sprintf("of these the rule withholds %d, as it started in this window", t.InitialDeficit))
	}
	return x.ends(lines, start)
}

// ends appends the lines that all windows share.
func (x *explainer) ends(lines []string, reserved int64) []string {
	if x.it.State.Reserved {
		lines = append(lines, reservedAhead+" "+x.at(reserved))
	}
	if x.it.Term.CountDenied {
		lines = append(lines, "denied requests count, too")
	}
	return lines
}

func (x *explainer) counter(c slidingCounter) (lines []string) {
	t, s := x.it.Term, &x.it.State
	if s.Zero() {
		return x.ends([]string{left("counts", t.Quota, 0, t.Quota)}, 0)
	}
	now := max(x.now, c.start(t, s))
	v := c.at(t, s, now)
	if t.Behind > 1 {
		lines = append(lines, fmt.Sprintf("the last %d sub-windows of %v, which began at %s, count %d", t.Behind, micros(t.Sub), x.at(v.start-int64(t.Behind-1)*t.Sub), v.whole))
	} else {
		lines = append(lines, fmt.Sprintf("since %s it counts %d", x.at(v.start), v.whole))
	}
	inSight, rounded := t.Sub-(now-v.start), "down"
	if t.Strict {
		rounded = "up"
	}
	counted := c.counted(t, s, x.now)
	if t.Conservative || t.Whole {
		lines = append(lines, fmt.Sprintf("the %v before that count %d, which counts whole", micros(t.Sub), v.oldest))
	} else {
		lines = append(lines, fmt.Sprintf("the %v before that count %d, of which %v are in sight: %d, rounded %s", micros(t.Sub), v.oldest, micros(inSight), counted-v.whole, rounded))
	}
	lines = append(lines, left("together", t.Quota, counted, max(t.Quota-counted, 0)))
	if s.fill != 0 {
		lines = append(lines, fmt.Sprintf("the rule started at %s as if all were spent before", x.at(s.fill)))
	}
	return x.ends(lines, c.start(t, s))
}

func (x *explainer) log(l slidingLog, room int64) (lines []string) {
	t, seen := x.it.Term, x.it.State
	now := x.now
	if !seen.Zero() {
		now = max(now, l.instant(t, &seen))
		l.expire(t, &seen, now)
	}
	lines = append(lines, left("counts", t.Quota, seen.A, room))
	if seen.Reserved {
		lines[0] = fmt.Sprintf("counts %d of %d", seen.A, t.Quota)
	}
	r, entries, denied := ringOf(t, &seen), 0, int64(0)
	for i := 0; i < seen.Len; {
		e := r.entry(i)
		if i += e.words; e.denied {
			denied += e.units
		}
		entries++
	}
	if entries > 0 {
		e := r.entry(0)
		oldest, expires := "unit", "expires"
		if e.units > 1 {
			oldest, expires = fmt.Sprintf("%d units", e.units), "expire"
		}
		lines = append(lines, fmt.Sprintf("the oldest %s, from %s, %s at %s", oldest, x.at(e.at), expires, x.at(e.at+t.Micros)))
	}
	if denied > 0 {
		lines = append(lines, fmt.Sprintf("%d of these were denied", denied))
	}
	if t.Kind == compiled.SlidingHistogram && seen.B > 0 {
		lines = append(lines, fmt.Sprintf("in %d entries; some of the oldest may count for longer than %v", entries, t.Window))
	}
	return x.ends(lines, now)
}

func (x *explainer) block() []string {
	t, s := x.it.Term, &x.it.State
	switch {
	case blocked(s):
		return []string{fmt.Sprintf("blocked from %s to %s", x.at(s.B), x.at(s.Idle))}
	case s.Zero() || x.now-s.B >= t.Micros:
		return []string{fmt.Sprintf("0 of %d denials that block for %v", t.Quota, t.Block.For)}
	default:
		return []string{fmt.Sprintf("%d of %d denials from %s to %s, that block for %v", s.A, t.Quota, x.at(s.B), x.at(s.B+t.Micros), t.Block.For)}
	}
}

func (x *explainer) blockOutcome(r *sluice.Reason) string {
	switch {
	case r.Allowed && x.whole.Allowed:
		return "not blocked: allowed"
	case r.Allowed:
		return "not blocked"
	case blocked(&x.it.State):
		return fmt.Sprintf("denied for another %v, whatever the other limits have left; a reset of the key ends it", r.RetryAfter)
	default:
		return fmt.Sprintf("this denial blocks it for %v", r.RetryAfter)
	}
}

// thousandths returns the number of thousandths of a unit that last for d, rounded up, at
// most MaxInt64.
func thousandths(r *span.Rate, d span.Span) int64 {
	whole := r.Units(d)
	if whole > math.MaxInt64/1000-1 {
		return math.MaxInt64
	}
	rest := r.Sub(d, r.Times(whole)) // less than a unit: (Micros·Den + Rem) / Num of one
	n := uint64(rest.Micros)*uint64(r.Den) + uint64(rest.Rem)
	hi, lo := bits.Mul64(n, 1000)
	part, rem := bits.Div64(hi, lo, uint64(r.Num))
	if rem > 0 {
		part++
	}
	return whole*1000 + int64(part)
}

// decimal writes thousandths.
func decimal(n int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%03d", n/1000, n%1000), "0"), ".")
}
