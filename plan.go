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

// Plan is the limits of one scope, validated and compiled. Every request to a [Store] has
// one. It does not change and is safe for concurrent use. Plans of one scope share the
// budgets of limits with the same name.
type Plan struct {
	scope string
	terms []Term
	plan
}

// plan and numbers are for the stores of this module alone.
type (
	plan    = compiled.Plan
	numbers = span.Numbers
)

// Term is one limit of a [Plan] with the numbers that follow from it. It is not changed
// once compiled, and may be shared.
type Term struct {
	Limit // with every default filled in

	// ID identifies scope and limit with all its parameters: state under one
	// ID was written under exactly these rules. Series identifies scope and
	// name alone: a limit that is changed stays in its series. Form identifies the form of
	// the state: limits of one Series and Form share a state, with different quotas for
	// example. All are hashes of 64 bits without a secret; a Store mixes them with keys under
	// its own. Form is no part of a stored format.
	ID, Series, Form uint64
	// Full is the number of units of [Limit.Full].
	Full int64
	// Queues says that the limit may delay requests until their turn. Only a leaky bucket
	// whose DelayAfter is below its Burst does.
	Queues bool

	numbers // that follow from the Limit
	options // of its Algorithm, for the stores of this module alone
}

// Compile validates limits and returns a [Plan] of them. The scope names the budget
// ("login", "api"): any text of 1 to 256 bytes. The error has all faults. Two limits with
// one name are refused, as they would count in the same state, and so are blocks alone, as
// they deny nobody.
func Compile(scope string, limits ...Limit) (*Plan, error) {
	var faults []error
	if scope == "" || len(scope) > bounds.MaxScopeBytes {
		faults = append(faults, fmt.Errorf("scope of %d bytes: must have 1 to %d", len(scope), bounds.MaxScopeBytes))
	}
	if len(limits) == 0 || len(limits) > bounds.MaxLimits {
		faults = append(faults, fmt.Errorf("%d limits: must be 1 to %d", len(limits), bounds.MaxLimits))
	}
	p, id := &Plan{scope: scope, terms: make([]Term, 0, len(limits))}, uint64(0)
	var names map[string]int // most plans have one limit
	if len(limits) > 1 {
		names = make(map[string]int, len(limits))
	}
	blocks := 0
	for i, l := range limits {
		if err := l.Validate(); err != nil {
			faults = append(faults, fmt.Errorf("limit %d (%v): %w", i+1, l, err))
			continue
		}
		p.terms = append(p.terms, Term{})
		t := &p.terms[len(p.terms)-1]
		t.compile(scope, l)
		if first, taken := names[t.Name]; taken {
			faults = append(faults, fmt.Errorf("limit %d (%v): limit %d has the name %q too; name one of them", i+1, l, first+1, t.Name))
		}
		if names != nil {
			names[t.Name] = i
		}
		id = mix(id, t.ID)
		if t.Kind == compiled.Block {
			blocks++
		}
	}
	if blocks > 0 && blocks == len(limits) {
		faults = append(faults, errors.New("a block counts the denials of other limits, but the plan has none; add a limit, such as 100/min"))
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("sluice: compile %q: %w", scope, errors.Join(faults...))
	}
	p.ID, p.ScopeID = id, hashText(scope)
	p.Plain = len(p.terms) == 1 && p.terms[0].Plain
	return p, nil
}

// CompileLimit returns the Term of one limit, which may be a block, as in a [Plan] of the
// scope: for a [Store] that finds a state whose limit is in no Plan that it has. Its errors
// are those of [Compile].
func CompileLimit(scope string, l Limit) (*Term, error) {
	if scope == "" || len(scope) > bounds.MaxScopeBytes {
		return nil, fmt.Errorf("sluice: scope of %d bytes: must have 1 to %d", len(scope), bounds.MaxScopeBytes)
	}
	if err := l.Validate(); err != nil {
		return nil, err
	}
	t := new(Term)
	t.compile(scope, l)
	return t, nil
}

// form returns the Form of t. Buckets with continuous refill share a balance, limits that
// count the same windows in the same way share the counts, whatever their quotas, and all
// blocks share a state. Buckets that warm up share a state if their WarmUp and their rate are
// the same.
func (t *Term) form() uint64 {
	parts := func(kind compiled.Kind, list ...int64) uint64 {
		h := hashText(kind.String())
		for _, n := range list {
			h = mix(h, uint64(n))
		}
		return h
	}
	switch {
	case t.WarmUp > 0:
		return parts(t.Kind, int64(t.WarmUp), t.Rate.Num, t.Rate.Den)
	case t.refills():
		return parts(compiled.TokenBucket)
	case t.Kind == compiled.Block:
		return parts(t.Kind)
	case t.Kind == compiled.SlidingCounter:
		return parts(t.Kind, t.Sub, int64(t.Behind))
	}
	onFirst := int64(0)
	if t.OnFirst {
		onFirst = 1
	}
	return parts(t.Kind, t.Micros, onFirst, int64(t.Refill), int64(t.Calendar), int64(t.WeekStart),
		int64(hashText(t.Zone)), int64(t.From.Month), int64(t.From.Day), int64(t.From.Time))
}

// compile makes t the limit l of a scope.
func (t *Term) compile(scope string, l Limit) {
	t.Limit = l.Filled()
	t.options, _ = optionsOf(t.Algorithm)
	t.Full, t.Queues = t.Limit.Full(), t.Limit.queues()
	t.Series = hashText(scope, t.Name)
	canonical := t.Limit
	canonical.Name = ""
	t.ID = hashText(scope, t.Name, canonical.String())
	t.Micros = t.Window.Microseconds()
	t.Sub = t.Micros
	if t.SubWindows > 1 {
		t.Sub = t.Micros / int64(t.SubWindows)
	}
	if t.Behind = t.SubWindows; t.Whole {
		t.Behind--
	}
	if t.Kind.Bucket() {
		if t.NextWaits {
			t.Lent = t.Debt
		}
		t.Rate = span.New(t.Quota, t.Micros)
		if t.Refill != Continuous {
			t.Rate = span.New(1, t.Micros) // counted in windows, not units
		} else {
			t.Reach = t.Rate.Times(t.Burst)
			t.Most = t.Rate.Times(t.Burst + t.Debt)
			t.Horizon = t.Most.Ceil()
		}
		t.Inverse = span.InverseOf(t.Rate.Num)
		t.OneWord = t.Refill == Continuous && t.WarmUp == 0 && t.Rate.Den <= 1<<16 && t.Credit == 0
		t.Plain = t.OneWord && t.InitialDeficit|t.Lent == 0 && !t.CountDenied
	}
	t.MostInWord = span.MostInWord
	t.Ring = t.logs() || t.Kind == compiled.SlidingCounter && t.Behind != 1
	if t.logs() {
		words := t.Quota + t.Debt
		if t.CountDenied {
			words += 2*t.Quota + 16 // with that many, a log forgets denials that are too old to matter
		}
		t.LogWords = int(min(words, 1<<30))
	}
	t.Counted = (t.Kind == compiled.FixedWindow || t.Kind == compiled.SlidingCounter && t.Behind == 1 || t.Burst > 0 && t.Refill != Continuous) &&
		t.InitialDeficit|t.Lent == 0 && !t.PreFilled && !t.CountDenied
	if t.Counted && t.Kind == compiled.FixedWindow {
		t.packWindow()
	}
	t.Form = t.form()
	if t.Calendar != NoCalendar {
		t.Location, _ = time.LoadLocation(t.Zone) // Validate has loaded it
	}
}

// packWindow sets whether a state of a fixed window fits one word: the units and the end of
// an aligned window.
func (t *Term) packWindow() {
	if !t.OnFirst && t.Calendar == NoCalendar && t.Micros >= span.WideUnit && t.Micros <= span.WideLongest {
		t.Wide, t.Inverse, t.MostInWord = true, span.InverseOf(t.Micros), span.MostInWideWord
	}
	t.Horizon = t.Micros
	t.OneWord = t.Quota+t.Debt <= t.MostInWord
	t.Plain = t.OneWord
}

// hashText is FNV-1a over the parts and their lengths.
func hashText(parts ...string) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	for _, s := range parts {
		for n := uint64(len(s)); n > 0; n >>= 8 {
			h = (h ^ n&0xff) * prime
		}
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * prime
		}
		h = (h ^ 0xff) * prime
	}
	return h
}

// mix returns the hash of h followed by next.
func mix(h, next uint64) uint64 {
	const prime = 1099511628211
	h = (h ^ next) * prime
	return h ^ h>>32
}

// Scope returns the name under which plans share counters.
func (p *Plan) Scope() string { return p.scope }

// Len returns how many limits the plan has.
func (p *Plan) Len() int { return len(p.terms) }

// Term returns the i-th limit, ready to decide with. It must not be changed.
func (p *Plan) Term(i int) *Term { return &p.terms[i] }
