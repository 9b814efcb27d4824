// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package resp

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/policy/evaluate"
	"github.com/sluicegate/sluice/server/internal/front"
)

// rule decides the requests that name one rule.
type rule struct {
	*evaluate.Evaluator
	parts  []policy.Part          // the values of a key, in order: those of all levels
	levels []policy.CompiledLevel // of the rule in the policy
	at     [][]int                // of the parts of each level in parts
	plain  bool                   // a decision is one request to the store
}

// ruleOf returns the rule of a name, nil if there is none. It is compiled when first asked for.
func (a *active) ruleOf(name string) *rule {
	if known, ok := a.rules.Load(name); ok {
		return known.(*rule) //nolint:forcetypeassert // nothing else is ever stored
	}
	i, there := a.Policy.RuleOf(name)
	if !there || a.Policy.Rules()[i].Name != name {
		return nil
	}
	r, of := &rule{levels: a.Policy.Levels(i)}, a.Policy.Rules()[i]
	of.Match, of.Levels = policy.Match{}, slices.Clone(of.Levels) // a request that names a rule need not match it
	r.plain = !of.Shadow && of.MaxWait == 0
	for j := range of.Levels {
		l := &of.Levels[j]
		r.plain = r.plain && len(l.Candidates) == 0 && !slices.ContainsFunc(l.Limits, func(l policy.Limit) bool { return l.Grace != nil })
		at, by := make([]int, len(l.By)), make([]policy.Part, len(l.By))
		for k, part := range l.By {
			if at[k] = slices.Index(r.parts, part); at[k] < 0 {
				at[k], r.parts = len(r.parts), append(r.parts, part)
			}
			by[k] = policy.Func(part.String(), func(a policy.Attributes) (string, error) {
				return a.(*asked).values[j][k], nil //nolint:forcetypeassert // this evaluator is given no others
			})
		}
		l.By, r.at = by, append(r.at, at)
	}
	alone, err := policy.Compile([]policy.Rule{of})
	if err == nil {
		r.Evaluator, err = evaluate.New(evaluate.Options{
			Name: "resp", Policy: alone, Store: a.Store, Overrides: a.Overrides, NoBodies: true, NoResponses: true, CallerWaits: true, Now: a.Now,
			OnError: func(ctx context.Context, _ policy.Attributes, err error) { a.OnError(ctx, err) },
		})
	}
	if err != nil {
		a.OnError(context.Background(), fmt.Errorf("resp: %w", err))
		return nil
	}
	known, _ := a.rules.LoadOrStore(name, r)
	return known.(*rule) //nolint:forcetypeassert // nothing else is ever stored
}

// asked is a request that names a rule and the values of its key. They are its attributes, and
// it has no others.
type asked struct {
	policy.Attributes
	client netip.Addr
	values [][]string // of each level

	rule *rule
	call evaluate.Call
	cost int64
	room sluice.Outcomes
}

// Client implements [policy.Attributes].
func (q *asked) Client() netip.Addr { return q.client }

var unescape = strings.NewReplacer("%7C", "|", "%7c", "|", "%25", "%")

// set sets the values of a key: the only one, or several with a bar between them.
func (q *asked) set(key string) error {
	r := q.rule
	values := []string{key}
	if len(r.parts) > 1 {
		values = strings.Split(key, "|")
		for i := range values {
			values[i] = unescape.Replace(values[i])
		}
	}
	if len(r.parts) == 0 && key != "" || len(r.parts) > 0 && len(values) != len(r.parts) {
		texts := make([]string, len(r.parts))
		for i := range texts {
			texts[i] = r.parts[i].String()
		}
		return fmt.Errorf("the key of this rule is %q: the value of each, with %%7C for a bar in it and %%25 for a percent sign", strings.Join(texts, "|"))
	}
	q.values, q.client = make([][]string, len(r.levels)), netip.Addr{}
	for i, at := range r.at {
		own := make([]string, len(at))
		for k, from := range at {
			own[k] = values[from]
			if addr, err := netip.ParseAddr(own[k]); err == nil && r.parts[from].Source == "ip" {
				q.client = addr
			}
		}
		if len(own) > 0 {
			var err error
			if _, own, err = r.levels[i].Key(own); err != nil {
				return err
			}
		}
		q.values[i] = own
	}
	return nil
}

// asked returns the request of a command on a rule and a key. If there is none, it has answered.
func (s *session) asked(operation string, args [][]byte) *asked {
	name := string(args[1])
	if !s.may(operation, name) {
		return nil
	}
	q := &asked{Attributes: nothing, rule: s.active.ruleOf(name), cost: -1}
	if q.rule == nil {
		s.fail(refusedCommand, "ERR there is no rule of that name at this listener")
		return nil
	}
	if err := q.set(string(args[2])); err != nil {
		s.fail(refusedCommand, "ERR %v", err)
		return nil
	}
	return q
}

// number reads an argument from 0 to the largest cost, or answers with an error.
func (s *session) number(arg []byte) (int64, bool) {
	n, valid := integer(arg)
	if !valid || n < 0 || n > sluice.MaxQuota {
		s.fail(refusedCommand, "ERR value is not an integer or out of range")
		return 0, false
	}
	return n, true
}

// take does SLUICE.TAKE rule key [cost].
func (s *session) take(args [][]byte) { s.decide("take", args, args[3:], nil) }

// peek does SLUICE.PEEK rule key [cost].
func (s *session) peek(args [][]byte) { s.decide("peek", args, args[3:], nil) }

// hold does SLUICE.HOLD rule key id cost ttl_ms.
func (s *session) hold(args [][]byte) {
	ms, valid := s.number(args[5])
	ttl := time.Duration(ms) * time.Millisecond
	if valid && (ttl < sluice.MinHold || ttl > sluice.MaxHold) {
		s.fail(refusedCommand, "ERR ttl_ms must be %d to %d", sluice.MinHold.Milliseconds(), sluice.MaxHold.Milliseconds())
		return
	}
	if valid {
		s.decide("hold", args, args[4:5], &sluice.Hold{ID: s.holdID(args[3]), TTL: ttl})
	}
}

// holdID returns the id of a hold in the store. Each token has its own.
func (s *session) holdID(id []byte) string {
	return cmp.Or(s.user, "client") + "/hold/" + string(id)
}

// decide decides a request whose cost may be given.
func (s *session) decide(operation string, args, cost [][]byte, hold *sluice.Hold) {
	q := s.asked(operation, args)
	if q == nil {
		return
	}
	if len(cost) > 0 {
		var valid bool
		if q.cost, valid = s.number(cost[0]); !valid {
			return
		}
		q.call.Cost = &q.cost
	}
	k := ask{command: "SLUICE." + strings.ToUpper(operation), of: q}
	q.call.Peek, q.call.Hold = operation == "peek", hold
	if !q.rule.plain || hold != nil {
		s.flush() // those before it come first
		q.rule.Decide(s.front.ctx, q, &q.call)
		s.ask(k, nil)
		return
	}
	charges := q.rule.Charges(s.front.ctx, q, &q.call)
	if len(charges) == 0 {
		s.ask(k, nil)
		return
	}
	req := sluice.Request{Charge: charges[0], More: charges[1:], Outcomes: &q.room}
	if q.room = make(sluice.Outcomes, req.Limits()); q.call.Peek {
		req.Op = sluice.OpPeek
	}
	s.ask(k, &req)
}

// appendDecided appends whether a request may run, and the units that remain; the times in ms
// until it may be sent again (-1: never), until all units are back, and to wait; the verdict,
// the limit that binds, and a receipt or the state of the hold.
func (s *session) appendDecided(q *asked) {
	e := &q.call.Event
	if e.Verdict == evaluate.Refused || e.Verdict == evaluate.Abandoned {
		s.refuse(refusedCommand)
		s.out = appendError(s.out, "ERR "+string(e.AppendDetail(nil)))
		return
	}
	d := &e.Decision
	allowed, retry, limit, receipt := int64(0), int64(-1), "", ""
	if e.Verdict.Passes() {
		allowed, retry = 1, 0
	} else if wait, ok := e.Retry(); ok && wait < sluice.MaxRetryAfter {
		retry = roundUp(wait, time.Millisecond)
	}
	if e.Limit != nil {
		limit = e.Limit.Name
	}
	switch {
	case d.Hold != 0:
		receipt = holdStates[d.Hold]
	case !q.call.Peek && allowed == 1 && d.Spent > 0 && d.At > 0:
		receipt = front.Receipt{At: d.At, Due: d.Due, Units: d.Spent}.String()
	}
	s.out = appendArray(s.out, 8)
	for _, n := range [...]int64{allowed, d.Remaining, retry, roundUp(d.ResetAfter, time.Millisecond), roundUp(d.Delay, time.Millisecond)} {
		s.out = appendInt(s.out, n)
	}
	for _, text := range [...]string{e.Verdict.String(), limit, receipt} {
		s.out = appendBulk(s.out, text)
	}
}

var holdStates = map[sluice.HoldState]string{
	sluice.HoldOpen: "open", sluice.HoldSettled: "settled", sluice.HoldExpired: "expired",
	sluice.HoldUnknown: "unknown", sluice.HoldsFull: "full", sluice.HoldDiffers: "differs",
}

// settle does SLUICE.SETTLE rule key id cost.
func (s *session) settle(args [][]byte) {
	cost, valid := s.number(args[4])
	if !valid {
		return
	}
	req := sluice.Request{Op: sluice.OpSettle, Hold: &sluice.Hold{ID: s.holdID(args[3])}}
	if d, done := s.change("settle", args, req, cost, 0); done {
		s.out = appendInt(appendArray(s.out, 2), d.Spent)
		s.out = appendBulk(s.out, holdStates[d.Hold])
	}
}

// refund does SLUICE.REFUND rule key receipt [units].
func (s *session) refund(args [][]byte) {
	of, valid := front.ParseReceipt(string(args[3]))
	if !valid {
		s.fail(refusedCommand, "ERR that is no receipt of SLUICE.TAKE")
		return
	}
	units := of.Units
	if len(args) == 5 {
		if units, valid = s.number(args[4]); !valid {
			return
		}
		if units == 0 || units > of.Units {
			s.fail(refusedCommand, "ERR the receipt is of %d units", of.Units)
			return
		}
	}
	req, left := of.Refund(units)
	if d, done := s.change("refund", args, req, units, of.Units); done {
		rest := ""
		if left.Units > 0 {
			rest = left.String()
		}
		s.out = appendBulk(appendInt(appendArray(s.out, 2), -d.Spent), rest)
	}
}

// forget does SLUICE.RESET rule key.
func (s *session) forget(args [][]byte) {
	if _, done := s.change("reset", args, sluice.Request{Op: sluice.OpReset}, 0, 0); done {
		s.out = append(s.out, ok...)
	}
}

// change carries out an operation that is no decision. If it does not, it has answered.
func (s *session) change(operation string, args [][]byte, req sluice.Request, cost, counted int64) (d sluice.Decision, done bool) {
	q := s.asked(operation, args)
	if q == nil {
		return d, false
	}
	q.cost = 0
	q.call.Cost = &q.cost
	charges := q.rule.Charges(s.front.ctx, q, &q.call)
	if len(charges) == 0 {
		s.fail(refusedCommand, "ERR no limit applies to this key")
		return d, false
	}
	for i := range charges {
		charges[i].Cost, charges[i].Counted = cost, counted
	}
	req.Charge, req.More = charges[0], charges[1:]
	d, err := s.active.Store.Take(s.front.ctx, req)
	if err != nil {
		s.active.OnError(s.front.ctx, err)
		s.out = appendError(s.out, unavailable(err))
		return d, false
	}
	return d, true
}
