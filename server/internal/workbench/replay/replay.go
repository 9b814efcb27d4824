// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package replay decides the requests of a log as the gateway would have, on virtual time.
//
// The files, in the order in which to read them:
//
//   - replay.go: Run: the arrivals of a log under rules
//   - result.go: Result
//   - judge.go: decisions under one policy
//   - attributes.go: an arrival as rules see it
//   - recorded.go: rules for the keys of a decision log
//   - figures.go: counts by rule, key and time
//   - window.go: the true window of a key
//   - accuracy.go: Accuracy: each algorithm beside the exact log
package replay

import (
	"context"
	"errors"
	"net/netip"

	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// Rules are what decides.
type Rules struct {
	Policy      *policy.Policy
	Allow, Deny []netip.Prefix // as those of the gateway
	MaxKeys     int            // states of the store; see memstore.Options
}

// Options are the settings of [Run].
type Options struct {
	Rules
	// Against, if not nil, are other rules whose verdicts are compared.
	Against *Rules
	// Explain, if not nil, explains a decision and ends there.
	Explain *Moment
	// Progress, if not nil, is called now and then with the number of requests so far.
	Progress func(requests int64)
}

// Moment is the first request of a key at or after an instant.
type Moment struct {
	Key string
	At  int64 // µs since 1970
}

// progressEvery is how many requests lie between two calls of Progress.
const progressEvery = 1 << 16

// errExplained ends a replay once the decision is explained.
var errExplained = errors.New("explained")

// run is a replay.
type run struct {
	Options
	ctx    context.Context //nolint:containedctx // of Run
	judge  *judge
	old    *judge // of Against
	result *Result

	scopes          scopes
	arrived, passed peak
	series          series
	last            int64
	differences     map[string]*Difference
	matches         policy.Matches
}

// Run decides all arrivals of a log.
func Run(ctx context.Context, log *arrivals.Log, o Options) (*Result, error) {
	r := &run{Options: o, ctx: ctx, result: new(Result), scopes: scopes{byLevel: make(map[scopeID]*scope)}, differences: make(map[string]*Difference)}
	var err error
	if r.judge, err = newJudge(&o.Rules); err != nil {
		return nil, err
	}
	if o.Against != nil {
		if r.old, err = newJudge(o.Against); err != nil {
			return nil, err
		}
	}
	switch err := log.All(ctx, r.arrival); {
	case errors.Is(err, errExplained):
		return r.result, nil
	case err != nil:
		return nil, err
	case o.Explain != nil:
		return nil, errors.New("--explain: no request of that key comes at that time or later")
	}
	r.finish(log)
	return r.result, nil
}

// arrival decides one arrival and counts it.
func (r *run) arrival(a *arrivals.Arrival) error {
	if x := r.Explain; x != nil && a.At >= x.At && r.has(a, x.Key) {
		return r.explain(a)
	}
	call, err := r.judge.decide(r.ctx, a)
	if err != nil {
		return err
	}
	f := r.result
	if f.Requests++; f.Requests == 1 {
		f.first = a.At
	}
	r.last = a.At
	passes := call.Verdict.Passes()
	f.count(call.Verdict)
	r.series.add(a.At, passes)
	r.arrived.advance(a.At)
	r.arrived.add(a.At)
	r.passed.advance(a.At)
	if passes {
		r.passed.add(a.At + call.Decision.Delay.Microseconds())
	}
	denied := r.levels(a, call)
	r.trials(a.At, call)
	if a.Record != nil {
		r.compareRecorded(a, call.Verdict)
	}
	if r.old != nil {
		if err := r.compare(a, passes, denied); err != nil {
			return err
		}
	}
	if r.Progress != nil && f.Requests%progressEvery == 0 {
		r.Progress(f.Requests)
	}
	return nil
}

// levels counts the request for each limit of an active rule, and returns the name of the key
// that was denied, if one was.
func (r *run) levels(a *arrivals.Arrival, call *evaluate.Call) (denied string) {
	v := call.Evaluated
	if v == nil {
		return ""
	}
	isDenied := call.Verdict == evaluate.Denied
	if f := v.InFlight; f != nil {
		s := r.scopes.of(f.Rule, f.Level, "enforce")
		k := s.key(f.Key)
		s.requests++
		k.requests++
		s.deny(k, a.At)
		return f.Key
	}
	var last *scope
	var k *key
	i := 0
	for o := range v.Outcomes() {
		s := r.scopes.of(o.Rule, o.Level, "enforce")
		if s != last || k.name != o.Key {
			last, k = s, s.key(o.Key)
			s.requests++
			k.requests++
		}
		binds := isDenied && i == v.Decision.Binding
		i++
		if binds {
			denied = k.name
			s.deny(k, a.At)
		}
		if o.Limit.Block.For > 0 {
			continue
		}
		l := s.limit(o.Limit)
		switch {
		case !isDenied && call.Verdict.Passes() && o.Allowed:
			l.admit(k, max(a.At, int64(v.Decision.At)), units(o.Rule, o.Cost, a))
		case binds:
			l.deny(k, a.At, o.Cost)
		}
	}
	return denied
}

// trials counts what shadow rules and candidates would have done.
func (r *run) trials(at int64, call *evaluate.Call) {
	if call.Evaluated == nil {
		return
	}
	for t := range call.Evaluated.Trials() {
		mode := "shadow"
		if t.Candidate != nil {
			mode = "candidate " + t.Candidate.Name
		}
		s := r.scopes.of(t.Rule, t.Level, mode)
		k := s.key(t.Key)
		s.requests++
		if k.requests++; t.Err == nil && !t.Allowed {
			s.deny(k, at)
		}
	}
}

// compare decides the arrival under the other rules, too.
func (r *run) compare(a *arrivals.Arrival, passes bool, denied string) error {
	call, err := r.old.decide(r.ctx, a)
	if err != nil {
		return err
	}
	before := call.Verdict.Passes()
	against := r.result.Against
	if against == nil {
		against = new(Comparison)
		r.result.Against = against
	}
	if before {
		against.Allowed++
	} else {
		against.Denied++
	}
	if before == passes {
		return nil
	}
	key := denied
	if passes {
		key = call.Charge.Key
	}
	d := r.differences[key]
	if d == nil {
		d = &Difference{Key: key, First: instant(a.At)}
		r.differences[key] = d
	}
	if before {
		against.NewlyDenied++
		d.NewlyDenied++
	} else {
		against.NewlyAllowed++
		d.NewlyAllowed++
	}
	return nil
}

// compareRecorded counts the decisions that differ from those in the log.
func (r *run) compareRecorded(a *arrivals.Arrival, verdict evaluate.VerdictKind) {
	f := r.result
	if f.Recorded == nil {
		f.Recorded = new(Recorded)
	}
	f.Recorded.Requests++
	if verdict.String() != a.Record.Verdict {
		f.Recorded.Different++
	}
}

// has reports whether a rule charges the arrival to a key.
func (r *run) has(a *arrivals.Arrival, name string) bool {
	p := r.Policy
	p.Match(&attributes{of: a, lacks: make(lacks)}, &r.matches)
	for i := range r.matches.Len() {
		levels := p.Levels(r.matches.At(i))
		for j := range levels {
			if key, ok, err := r.matches.Key(i, &levels[j]); ok && err == nil && key == name {
				return true
			}
		}
	}
	return false
}

// explain explains the decision of an arrival.
func (r *run) explain(a *arrivals.Arrival) error {
	r.judge.settle(r.ctx, a.At)
	r.judge.now = a.At
	e, err := r.judge.evaluator.Explain(r.ctx, &attributes{of: a, lacks: r.judge.lacks})
	if err != nil {
		return err
	}
	r.result.Explained = &Explained{At: instant(a.At), File: a.File, Line: a.Line, Explanation: e}
	return errExplained
}

func share(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}
