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
//   - logged.go: rules for the keys that a log has
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

// Rules are the rules that decide.
type Rules struct {
	Policy      *policy.Policy
	Allow, Deny []netip.Prefix // as those of the gateway
	MaxKeys     int            // states of the store; see memstore.Options
}

// Options are the settings of [Run].
type Options struct {
	Rules
	Against  *Rules               // other rules, whose verdicts are compared, or nil
	Explain  *Moment              // a decision to explain, where the replay ends, or nil
	Progress func(requests int64) // called now and then; nil: never
}

// Moment is the first request of a key at or after an instant.
type Moment struct {
	Key string // an address names the key of its network, too
	At  int64  // µs since 1970
}

// progressEvery is how many requests lie between two calls of Progress.
const progressEvery = 1 << 16

// errExplained ends a replay once the decision is explained.
var errExplained = errors.New("explained")

// run is a replay.
type run struct {
	Options
	Result
	ctx             context.Context //nolint:containedctx // of Run
	judge, old      *judge          // old: of Against
	scopes          []*scope
	byLevel         map[scopeID]*scope
	last            scopeID
	scoped          *scope // of last
	arrived, passed peak
	first, latest   int64
	changed         map[string]*Difference
	matches         policy.Matches
}

// Run decides all arrivals of a log.
func Run(ctx context.Context, log *arrivals.Log, o Options) (*Result, error) {
	if o.Progress == nil {
		o.Progress = func(int64) {}
	}
	r := &run{Options: o, ctx: ctx, byLevel: make(map[scopeID]*scope), changed: make(map[string]*Difference)}
	r.Series.Seconds = 60
	var err error
	if r.judge, err = newJudge(&o.Rules); err == nil && o.Against != nil {
		r.Result.Against = new(Comparison)
		r.old, err = newJudge(o.Against)
	}
	if err != nil {
		return nil, err
	}
	err = log.All(ctx, r.arrival)
	switch r.Log = log.Report; {
	case errors.Is(err, errExplained):
		return &r.Result, nil
	case err == nil && o.Explain != nil:
		err = errors.New("--explain: no request of that key comes at that time or later")
	case err == nil:
		r.finish()
	}
	return &r.Result, err
}

// arrival decides one arrival and counts it.
func (r *run) arrival(a *arrivals.Arrival) error {
	if x := r.Options.Explain; x != nil && a.At >= x.At && r.has(a, x.Key) {
		return r.explain(a)
	}
	call, err := r.judge.decide(r.ctx, a)
	if err != nil {
		return err
	}
	if r.Requests++; r.Requests == 1 {
		r.first = a.At
	}
	r.latest = a.At
	r.count(call.Verdict)
	passes := call.Verdict.Passes()
	r.Series.add(a.At, passes)
	r.arrived.add(a.At, a.At)
	if passes {
		r.passed.add(a.At, a.At+call.Decision.Delay.Microseconds())
	}
	denied := r.levels(a, call)
	if a.Record != nil {
		if r.Recorded == nil {
			r.Recorded = new(Recorded)
		}
		if r.Recorded.Requests++; call.Verdict.String() != a.Record.Verdict {
			r.Recorded.Different++
		}
	}
	if r.Requests%progressEvery == 0 {
		r.measure()
		r.Progress(r.Requests)
	}
	if r.old == nil {
		return nil
	}
	return r.compare(a, passes, denied)
}

// levels counts the request for each limit, and returns the key that was denied, if one was.
func (r *run) levels(a *arrivals.Arrival, call *evaluate.Call) (denied string) {
	v := call.Evaluated
	if v == nil {
		return ""
	}
	for t := range v.Trials() {
		mode := "shadow"
		if t.Candidate != nil {
			mode = "candidate " + t.Candidate.Name
		}
		s := r.scope(t.Rule, t.Level, mode)
		if k := s.request(t.Key); t.Err == nil && !t.Allowed {
			s.deny(k, a.At)
		}
	}
	if f := v.InFlight; f != nil {
		s := r.scope(f.Rule, f.Level, "enforce")
		s.deny(s.request(f.Key), a.At)
		return f.Key
	}
	var last *scope
	var k *key
	i, passes := -1, call.Verdict.Passes()
	for o := range v.Outcomes() {
		i++
		s := r.scope(o.Rule, o.Level, "enforce")
		if s != last || k.Key != o.Key {
			last, k = s, s.request(o.Key)
		}
		binds := call.Verdict == evaluate.Denied && i == v.Decision.Binding
		if binds {
			denied = k.Key
			s.deny(k, a.At)
		}
		switch {
		case o.Limit.Block.For > 0:
		case passes && o.Allowed:
			s.limit(o.Limit).admit(k, max(a.At, int64(v.Decision.At)), units(o.Rule, o.Cost, a))
		case binds:
			s.limit(o.Limit).deny(k, a.At, o.Cost)
		}
	}
	return denied
}

// compare also decides the arrival under the other rules. denied is the key that was denied.
func (r *run) compare(a *arrivals.Arrival, passes bool, denied string) error {
	call, err := r.old.decide(r.ctx, a)
	if err != nil {
		return err
	}
	c, before := r.Result.Against, call.Verdict.Passes()
	if before {
		c.Allowed++
	} else {
		c.Denied++
	}
	if before == passes {
		return nil
	}
	if passes {
		denied = call.Charge.Key
	}
	d := r.changed[denied]
	if d == nil {
		d = &Difference{Key: denied, First: instant(a.At)}
		r.changed[d.Key] = d
	}
	if before {
		c.NewlyDenied++
		d.NewlyDenied++
	} else {
		c.NewlyAllowed++
		d.NewlyAllowed++
	}
	return nil
}

// has reports whether a rule charges the arrival to a key, or to the network of an address.
func (r *run) has(a *arrivals.Arrival, name string) bool {
	p := r.Policy
	addr, _ := netip.ParseAddr(name)
	is := func(key string) bool {
		network, err := netip.ParsePrefix(key)
		return key == name || err == nil && network.Contains(addr)
	}
	p.Match(&attributes{Arrival: a, lacks: r.judge.lacks}, &r.matches)
	for i := range r.matches.Len() {
		levels := p.Levels(r.matches.At(i))
		for j := range levels {
			if key, ok, err := r.matches.Key(i, &levels[j]); ok && err == nil && is(key) {
				return true
			}
		}
	}
	return false
}

// explain explains the decision of an arrival.
func (r *run) explain(a *arrivals.Arrival) (err error) {
	r.judge.settle(r.ctx, a.At)
	r.Explained = &Explained{At: instant(a.At), File: a.File, Line: a.Line}
	if r.Explained.Explanation, err = r.judge.evaluator.Explain(r.ctx, &attributes{Arrival: a, lacks: r.judge.lacks}); err != nil {
		return err
	}
	return errExplained
}
