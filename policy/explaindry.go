// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluicegate/sluice"
)

// dryStore answers an Evaluator as its store would, but changes nothing, so that Explain
// runs the code of Decide.
type dryStore struct {
	store, slots sluice.ExplainStore
	reasons      map[sluice.Charge][]sluice.Reason // of every charge that was asked about
}

// Take returns the decision that the store explains. A refund does nothing, as nothing was
// spent.
func (s *dryStore) Take(ctx context.Context, req sluice.Request) (sluice.Decision, error) {
	if req.Op == sluice.OpRefund {
		return sluice.Decision{}, nil
	}
	e, err := s.store.Explain(ctx, req)
	if err != nil {
		return sluice.Decision{}, err
	}
	at := 0
	for i := range req.Charges() {
		c := req.Nth(i)
		s.reasons[*c] = e.Limits[at : at+c.Plan.Len()]
		at += c.Plan.Len()
	}
	for i := range req.Outcomes.All() {
		(*req.Outcomes)[i] = e.Limits[i].Outcome
	}
	for i := range e.Limits {
		if _, blocks := e.Limits[i].Limit.Algorithm.(sluice.Block); blocks { // it has no units
			e.Limits[i].Remaining = 0
		}
	}
	return e.Decision, nil
}

// Slot returns the store's explanation of an acquire; other operations do nothing.
func (s *dryStore) Slot(ctx context.Context, req sluice.SlotRequest) (sluice.SlotDecision, error) {
	if req.Op != sluice.SlotAcquire {
		return sluice.SlotDecision{}, nil
	}
	return s.slots.ExplainSlot(ctx, req)
}

// inFlight explains the requests in flight of a key, whether they denied or not. It
// returns nil if the level has no such limit, or the store is unavailable.
func (s *dryStore) inFlight(ctx context.Context, r *rule, l *level, key string) *InFlight {
	if l.InFlight == nil {
		return nil
	}
	h := hold{rule: r, level: l, key: key}
	d, err := s.slots.ExplainSlot(ctx, h.ask(sluice.SlotPeek, ""))
	if err != nil {
		return nil
	}
	return &InFlight{Rule: &r.Rule, Level: l.Level, Key: key, Limit: l.inFlight, Decision: d}
}

// shaped explains the limits of a rule that shapes, for one byte.
func (s *dryStore) shaped(ctx context.Context, c sluice.Charge) (list []LimitExplanation, err error) {
	e, err := s.store.Explain(ctx, sluice.Request{Op: sluice.OpPeek, Charge: c})
	for _, reason := range e.Limits {
		list = append(list, LimitExplanation{Reason: reason})
	}
	return list, err
}

// mostNamed is the number of list values that a difference names, and mostShown the number
// of bytes that it shows of the request's value.
const (
	mostNamed = 4
	mostShown = 256
)

// differences returns why a rule does not match.
func (m *Matches) differences(r *rule, a Attributes) (list []string) {
	add := func(part, format string, args ...any) {
		list = append(list, part+": "+fmt.Sprintf(format, args...))
	}
	if !m.foundBy(&rule{Rule: Rule{Match: Match{Hosts: r.Match.Hosts}}}, a) {
		add("host", "%s is %s", brief(a.Host()), noneOf(r.Match.Hosts))
	}
	if !m.foundBy(&rule{patterns: r.patterns}, a) {
		add("path", "%s is %s", brief(a.Path()), noneOf(r.Match.Paths))
	}
	switch d := r.differs(a, m.found.client); d.part {
	case partMethod:
		add("method", "%s is %s", brief(a.Method()), noneOf(r.Match.Methods))
	case partHeader:
		add("header "+r.Match.Headers[d.i].Name, "%s", r.Match.Headers[d.i].lacks())
	case partQuery:
		add("query "+r.Match.Queries[d.i].Name, "%s", r.Match.Queries[d.i].lacks())
	case partNetwork:
		var names []string
		for _, n := range r.Match.Networks {
			names = append(names, n.String())
		}
		client := "a client without an address"
		if m.found.client.IsValid() {
			client = m.found.client.String()
		}
		add("network", "%s is not in %s", client, strings.Join(shortened(names), ", "))
	case partNone:
		if len(list) == 0 {
			add("path", "%s is excepted by %s", brief(a.Path()), strings.Join(shortened(r.Match.Except), ", "))
		}
	}
	return list
}

// foundBy reports whether the index finds the request by the given part of a rule alone.
func (m *Matches) foundBy(only *rule, a Attributes) bool {
	var x index
	x.add(0, only)
	for i := range m.path.n {
		s := search{attributes: a, path: &m.path.paths[i], client: m.found.client}
		if x.find(&s); len(s.found) > 0 {
			return true
		}
	}
	return false
}

func (f *Field) lacks() string {
	switch {
	case f.Absent:
		return "must not be there"
	case len(f.Values) == 0:
		return "is not there, or empty"
	default:
		return "is " + noneOf(f.Values)
	}
}

// noneOf returns a text saying that a value is none of a list.
func noneOf(list []string) string {
	if len(list) == 1 {
		return "not " + list[0]
	}
	return "none of " + strings.Join(shortened(list), ", ")
}

// brief returns s, or its beginning.
func brief(s string) string {
	if len(s) <= mostShown {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:mostShown], ""), len(s))
}

func shortened(list []string) []string {
	if len(list) <= mostNamed {
		return list
	}
	return append(list[:mostNamed:mostNamed], fmt.Sprintf("and %d more", len(list)-mostNamed))
}
