// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package rulekit

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
)

// Store is a store whose clock is set by Set and does not advance.
type Store struct {
	sluice.Store
	Set func(time.Time)
	// State returns the whole content of the store, in its stored form.
	State func() string
}

// perPolicy is the number of requests of a policy.
const perPolicy = 12

// Explain explains and then decides random requests under random policies. The explanation
// must equal the decision, and must not change the store.
func Explain(t *testing.T, open func() Store, requests int, seed uint64) {
	t.Helper()
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	policies, seen := 0, map[string]int{}
	for n, draw := 0, uint64(0); n < requests; draw++ {
		rnd := rand.New(rand.NewPCG(seed, draw)) //nolint:gosec // draws must be repeatable
		p, err := policy.Compile(Rules(rnd))
		if err != nil {
			continue
		}
		policies++
		store := open()
		x := explained{t: t, policy: p, rnd: rnd, store: store, now: now, seen: seen, name: fmt.Sprintf("seed %d, draw %d", seed, draw)}
		x.evaluator, err = evaluate.New(evaluate.Options{
			Policy: p, Store: store.Store, Now: func() time.Time { return x.now }, CallerWaits: true,
			OnError: func(_ context.Context, _ policy.Attributes, err error) { x.failed = err },
		})
		if err != nil {
			t.Fatal(err)
		}
		for range perPolicy {
			x.now = x.now.Add(pick(drawer{rnd}, 0, 0, time.Microsecond, 77*time.Millisecond, time.Second, 10*time.Second, 40*time.Second))
			store.Set(x.now)
			x.request()
			n++
		}
	}
	for _, what := range []string{"allowed", "denied", "refused", "shadowed", "in flight", "soft", "candidate", "exempt", "unlimited", "shape", "delayed", "block"} {
		if seen[what] < requests/1000 {
			t.Errorf("%s: %d of %d requests; the draw is too narrow", what, seen[what], requests)
		}
	}
	t.Logf("%d policies, %v", policies, seen)
}

type explained struct {
	t         *testing.T
	rnd       *rand.Rand
	store     Store
	policy    *policy.Policy
	evaluator *evaluate.Evaluator
	failed    error // of the store
	now       time.Time
	held      []*evaluate.Call
	seen      map[string]int
	name      string
}

func (x *explained) request() {
	x.t.Helper()
	ctx := context.Background()
	a := Request(x.rnd).Attributes()
	before := x.store.State()
	e, err := x.evaluator.Explain(ctx, a)
	if err != nil {
		x.t.Fatalf("%s: %v", x.name, err)
	}
	if x.store.State() != before {
		x.t.Fatalf("%s: to explain %+v has changed the store", x.name, a)
	}
	c := new(evaluate.Call)
	x.evaluator.Decide(ctx, a, c)
	v := c.Evaluated
	if fault := x.differ(e, v, a); fault != "" {
		x.t.Fatalf("%s: %+v\n%s\nexplained %+v\ndecided %+v\n%+v", x.name, a, fault, e, v.Decision, e.Rules)
	}
	x.count(e)
	if v.Allowed {
		x.held = append(x.held, c)
	}
	for len(x.held) > 0 && x.rnd.IntN(2) == 0 { // others stay in flight
		r := policy.Response{Status: pick(drawer{x.rnd}, 200, 404), Took: time.Millisecond, Read: -1}
		if x.held[0].Settle(ctx, r); x.failed != nil {
			x.t.Fatalf("%s: %v", x.name, x.failed)
		}
		x.held = x.held[1:]
	}
}

// differ returns the difference between an explanation and the decision, or "" if they agree.
func (x *explained) differ(e *evaluate.Explanation, v *evaluate.Verdict, a policy.Attributes) string {
	passes := passed(e)
	switch {
	case v.Err != nil:
		return fmt.Sprintf("error %v", v.Err)
	case passes != v.Allowed, e.Decision != v.Decision:
		return "another decision"
	case (e.Verdict == evaluate.Refused.String()) != (v.Refused != nil):
		return "another refusal"
	}
	var want []sluice.Outcome
	for o := range v.Outcomes() {
		if _, blocks := o.Limit.Algorithm.(sluice.Block); blocks { // a block has no units
			o.Remaining = 0
		}
		want = append(want, o.Outcome)
	}
	var m policy.Matches
	x.policy.Match(a, &m)
	for i, r := range e.Rules {
		matched := slices.ContainsFunc(slices.Collect(numbers(m.Len())), func(n int) bool { return m.At(n) == i })
		if matched != r.Matches || matched != (len(r.Differences) == 0) {
			return fmt.Sprintf("rule %d matches: %v, explained %v, %+v", i, matched, r.Matches, r.Differences)
		}
		if r.Mode != "enforce" {
			continue
		}
		for _, l := range r.Levels {
			graced := slices.ContainsFunc(l.Limits, func(limit evaluate.LimitExplanation) bool { return limit.Grace })
			for _, limit := range l.Limits {
				o := plain(limit.Outcome, limit.Grace)
				i := slices.IndexFunc(want, func(w sluice.Outcome) bool { return plain(w, limit.Grace) == o })
				switch {
				case i >= 0 && !(limit.Soft && graced):
					want = slices.Delete(want, i, i+1)
				case i < 0 && !(limit.Soft && graced): // a soft limit is replaced by its grace limit
					return fmt.Sprintf("%v: explained %+v, which is none of the outcomes %+v", limit.Limit, limit.Outcome, want)
				}
			}
		}
	}
	if len(want) > 0 {
		return fmt.Sprintf("not explained: %+v", want)
	}
	var sides []string
	for s := range v.Trials() {
		sides = append(sides, fmt.Sprint(s.Rule.Name, s.Candidate != nil, s.Allowed))
	}
	for _, r := range e.Rules {
		for _, l := range r.Levels {
			for _, c := range l.Candidates {
				if c.Skipped == "" && !slices.Contains(sides, fmt.Sprint(r.Name, true, c.Allowed)) {
					return fmt.Sprintf("candidate %s of %s: explained %v, evaluated %v", c.Name, r.Name, c.Allowed, sides)
				}
			}
		}
	}
	if v.InFlight != nil && !slices.ContainsFunc(e.Rules, func(r evaluate.RuleExplanation) bool {
		return slices.ContainsFunc(r.Levels, func(l evaluate.LevelExplanation) bool {
			return l.InFlight != nil && l.InFlight.Level == v.InFlight.Level && reflect.DeepEqual(l.InFlight.Decision, v.InFlight.Decision)
		})
	}) {
		return fmt.Sprintf("denied by %+v", v.InFlight)
	}
	return ""
}

func passed(e *evaluate.Explanation) bool {
	return slices.Contains([]string{evaluate.Allowed.String(), evaluate.Warned.String(), evaluate.Delayed.String(), evaluate.FailedOpen.String()}, e.Verdict)
}

// plain returns the part of an outcome that a verdict keeps. The RetryAfter of a grace limit
// is not compared, as a verdict has the time until there is room under either limit.
func plain(o sluice.Outcome, grace bool) sluice.Outcome {
	if o.Spent = 0; grace {
		o.RetryAfter = 0
	}
	return o
}

func numbers(n int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	}
}

// count counts the kinds of an explanation.
func (x *explained) count(e *evaluate.Explanation) {
	x.seen[e.Verdict]++
	if passed(e) && len(e.Violated) > 0 {
		x.seen["shadowed"]++
	}
	for _, r := range e.Rules {
		note := func(what string, is bool) {
			if is {
				x.seen[what]++
			}
		}
		note("exempt", r.Exempt)
		for _, l := range r.Levels {
			note("exempt", strings.Contains(l.Note, "exempt"))
			note("unlimited", strings.Contains(l.Note, "no limit"))
			note("shape", r.Mode == "shape" && len(l.Limits) > 0)
			note("candidate", len(l.Candidates) > 0)
			note("in flight", l.InFlight != nil && !l.InFlight.Decision.Allowed)
			for _, limit := range l.Limits {
				note("soft", limit.Grace)
				_, block := limit.Limit.Algorithm.(sluice.Block)
				note("block", block && !limit.Allowed)
			}
		}
	}
}
