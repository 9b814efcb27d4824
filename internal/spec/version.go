// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"fmt"
	"strings"

	"github.com/sluicegate/sluice"
)

// kind is the way in which a version counts.
type kind uint8

const (
	bucketKind    kind = iota // token bucket and leaky bucket: one balance that drains
	refillKind                // token bucket that is refilled at intervals
	warmKind                  // token bucket that warms up
	fixedKind                 // fixed window on the clock
	firstKind                 // fixed window opened by the first request
	logKind                   // sliding log
	histogramKind             // sliding histogram
	counterKind               // sliding counter
	blockKind                 // a block, which counts denials
)

// counterRule is how a sliding counter weighs its oldest sub-window.
type counterRule uint8

const (
	interpolated counterRule = iota // prev·(W−e) < (Quota−cur−cost+1)·W
	strict                          // prev·(W−e) ≤ (Quota−cur−cost)·W
	conservative                    // prev + cur + cost ≤ Quota; where whole sub-windows count, prev is the last of these
)

// form identifies the versions of one name that share a state: all buckets share a balance,
// windows are distinguished by their length and their parts.
type form struct {
	kind   kind
	window int64
	parts  int64
	clock  bool // a bucket with refills aligned to the clock
	warmUp int64
}

// version is a limit with the numbers that the rules need.
type version struct {
	text   string
	series *series
	kind   kind
	form   form
	rule   counterRule

	quota, debt, window, burst, deficit, delayAfter int64
	credit, creditFor                               int64
	lent                                            int64 // Debt, with next-waits
	sub, parts, precision                           int64
	length                                          int64 // of a block
	queues, countDenied, preFilled                  bool
}

// series holds all versions of one limit: those of one scope and name.
type series struct {
	scope    string
	versions []*version
	den      int64 // balances are counted in 1/den units
	longest  int64 // time for which a unit counts
}

// noRuleError says that the specification has no rule for a limit.
type noRuleError string

func (e noRuleError) Error() string { return "spec: no rule for " + string(e) }

func newVersion(l sluice.Limit) (*version, error) {
	text := l.String()
	l = l.Filled()
	v := &version{
		text: text, quota: l.Quota, debt: l.Debt, window: l.Window.Microseconds(), burst: l.Burst, parts: 1, countDenied: l.CountDenied,
	}
	v.sub = v.window
	v.form = form{window: v.window, parts: v.parts}
	switch a := l.Algorithm.(type) {
	case sluice.TokenBucket:
		v.deficit, v.credit, v.creditFor = a.InitialDeficit, a.Credit, a.CreditFor.Microseconds()
		if a.NextWaits {
			v.lent = v.debt
		}
		switch {
		case a.Refill != sluice.Continuous:
			v.kind, v.form.clock = refillKind, a.Refill == sluice.Aligned
		case a.WarmUp > 0: // versions of one rate and one warm-up share a state
			g := gcd(v.window, v.quota)
			v.kind, v.form = warmKind, form{window: v.window / g, parts: v.quota / g, warmUp: a.WarmUp.Microseconds()}
		default:
			v.kind, v.form = bucketKind, form{}
		}
	case sluice.LeakyBucket:
		v.delayAfter, v.queues = a.DelayAfter, a.DelayAfter < l.Burst
		v.kind, v.form = bucketKind, form{}
	case sluice.FixedWindow:
		if v.deficit = a.InitialDeficit; a.Calendar != sluice.NoCalendar {
			return nil, noRuleError(text)
		}
		if v.kind = fixedKind; a.OnFirst {
			v.kind = firstKind
		}
	case sluice.SlidingLog:
		v.kind = logKind
	case sluice.SlidingHistogram:
		v.kind, v.precision = histogramKind, int64(a.Precision)
	case sluice.SlidingCounter:
		v.kind, v.parts, v.preFilled = counterKind, int64(a.SubWindows), a.PreFilled
		if v.sub = v.window / v.parts; a.Whole { // n sub-windows in a row, the running one and those n−1 before it
			v.parts--
			v.window -= v.sub
		}
		v.form = form{window: v.window, parts: v.parts}
		switch {
		case a.Conservative, a.Whole:
			v.rule = conservative
		case strings.Contains(text+" ", " strict "):
			v.rule = strict
		}
	case sluice.Block:
		v.kind, v.form, v.length = blockKind, form{}, a.For.Microseconds()
	default:
		return nil, noRuleError(text)
	}
	v.form.kind = v.kind
	const most = 1 << 20 // units for which no product below passes 63 bits
	if v.quota > most || v.debt > most || v.burst > most || v.credit > most {
		return nil, noRuleError(fmt.Sprintf("%s: more than %d units", text, most))
	}
	return v, nil
}

// starts reports whether a window counts units that the rule withholds at its start.
func (v *version) starts() bool { return v.preFilled || v.kind == fixedKind && v.deficit > 0 }

// full returns how many units an idle key may spend at once.
func (v *version) full() int64 { return v.units() + v.lent }

// units returns how many units an idle key has. Units spent beyond them are debt.
func (v *version) units() int64 {
	switch {
	case v.kind <= warmKind:
		return v.burst
	case v.kind == blockKind:
		return sluice.MaxQuota
	}
	return v.quota
}

// left returns how many units a take may spend if held units count: none for a key in debt,
// else all up to the debt that may be owed.
func (v *version) left(held int64) int64 {
	if held > v.units() {
		return 0
	}
	return v.full() - held
}

// needs returns how many units must be left for a take of cost. With next-waits it passes if
// nothing is owed above Burst, and may owe up to Debt after it.
func (v *version) needs(cost int64) int64 { return max(cost-v.lent, 0) }

// settle chooses the series' denominator: a multiple of every bucket's window, so that the
// units that drain in a µs are a whole number, or else one that is fine enough for rounding.
func (s *series) settle() {
	s.den = 1
	units := int64(1)
	for _, v := range s.versions {
		s.longest = max(s.longest, v.window, v.window*ceilDiv(v.burst+v.debt, v.quota), v.creditFor)
		units = max(units, v.burst+v.debt+v.credit, v.quota+v.debt)
	}
	for _, v := range s.versions {
		if !v.drainsEvenly() {
			continue
		}
		d := s.den / gcd(s.den, v.window)
		if d > (1<<59)/units/v.window {
			s.den = (1 << 59) / units
			return
		}
		s.den = d * v.window
	}
}

// drainsEvenly reports whether v is a bucket with continuous refill.
func (v *version) drainsEvenly() bool { return v.kind == bucketKind || v.kind == warmKind }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
