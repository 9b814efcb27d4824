// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/internal/wire"
)

// maxListed is how many hosts, paths, values, networks or tiers one rule may name.
const maxListed = 10_000

// compiler collects the faults of the rule that it compiles.
type compiler struct {
	faults      RuleErrors
	number      int
	name        string
	sound       sluice.Limit   // the last valid one: many rules have the same
	levelBlocks []sluice.Limit // blocks of the current level, part of each of its sets
	finders     map[[2]int]*clientip.Finder
}

func (c *compiler) fault(at place, format string, args ...any) {
	f := &RuleError{Rule: c.number, Name: c.name, At: at.steps[:at.n:at.n]}
	err := fmt.Errorf(format, args...)
	f.Problem = err.Error()
	if u, ok := err.(interface{ Unwrap() error }); ok {
		f.Err = u.Unwrap()
	}
	c.faults = append(c.faults, f)
}

// Compile checks rules and makes a [Policy] of them. Its error is [RuleErrors], with all
// faults. The rules must not be changed afterwards.
func Compile(rules []Rule) (*Policy, error) {
	c := &compiler{}
	if len(rules) > bounds.MaxRules {
		c.fault(in("Name"), "%d rules; a policy has at most %d", len(rules), bounds.MaxRules)
		return nil, c.faults
	}
	p := &Policy{list: slices.Clone(rules), rules: make([]rule, len(rules)), names: make(map[string]int, len(rules)), index: &index{}}
	for i := range rules {
		if i%32 == 0 {
			runtime.Gosched() // a large policy is compiled beside requests
		}
		c.number, c.name = i, rules[i].Name
		r := &p.rules[i]
		r.Rule = &p.list[i]
		if !bounds.ValidName(r.Name) {
			c.fault(in("Name"), "%q must be 1 to 64 of a-z, 0-9, '.', '_' and '-'", r.Name)
		} else if first, taken := p.names[r.Name]; taken {
			c.fault(in("Name"), "%q is the name of rule %d, too; rules of one name would share a budget: choose another", r.Name, first+1)
		} else {
			p.names[r.Name] = i
		}
		before := len(c.faults)
		if c.rule(r); len(c.faults) == before {
			m := &r.Match
			r.bare = len(m.Methods)+len(m.Headers)+len(m.Queries)+len(m.Networks)+len(r.except)+len(m.Descriptor)+len(m.ExceptDescriptor) == 0
			p.index.add(int32(i), r)
		}
	}
	if len(c.faults) == 0 {
		c.crowds(p)
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	return p, nil
}

// crowds finds rules that match a request together with more other rules than a store can
// charge at once. It tries an example request of each rule.
func (c *compiler) crowds(p *Policy) {
	var m Matches
	var names []string
	request := newExample()
	for i := range p.rules {
		if i%32 == 0 {
			runtime.Gosched()
		}
		r := &p.rules[i]
		r.fillExample(request)
		p.Match(request.Attributes(), &m)
		var n, shaped [2]int
		names = names[:0]
		for _, hit := range m.hits {
			if o := &p.rules[hit.rule]; o.Shape {
				shaped[o.Cost.Of-RequestBytes] += len(o.levels)
				names = append(names, o.Name)
			} else if !o.Shadow {
				n[phase(o)] += len(o.levels)
				names = append(names, o.Name)
			}
		}
		if most := max(n[0], n[1], shaped[0], shaped[1]); most > sluice.MaxCharges {
			c.number, c.name = i, r.Name
			c.fault(in("Match"), "a request may be charged under %d levels of rules at once (%s); at most %d can be decided together: narrow what they match",
				most, strings.Join(names, ", "), sluice.MaxCharges)
			return
		}
	}
}

// phase returns 1 for a rule that is decided with those that count responses, 0 for another.
func phase(r *rule) int {
	if r.When != nil && !r.When.ChargeFirst {
		return 1
	}
	return 0
}

func (c *compiler) rule(r *rule) {
	c.match(r)
	c.cost(&r.Cost)
	if w := r.When; w != nil {
		if len(w.Status) == 0 || len(w.Status) > maxListed {
			c.fault(in("When"), "%d statuses; list the responses that count, such as 401 or 4xx", len(w.Status))
		}
		for i, s := range w.Status {
			if s.From < 100 || s.To > 599 || s.From > s.To {
				c.fault(in("When", "Status").item(i), "%d to %d is not a range of response codes from 100 to 599; use one such as 500-503", s.From, s.To)
			}
		}
	}
	if r.Failure > sluice.FailClosed {
		c.fault(in("Failure"), "%v is not a failure policy; use open, local or closed", r.Failure)
	}
	if r.MaxWait < 0 || r.MaxWait > sluice.MaxWait {
		c.fault(in("MaxWait"), "%v must be 0 to %v", r.MaxWait, sluice.MaxWait)
	}
	if r.Status != 0 && (r.Status < 400 || r.Status > 599) {
		c.fault(in("Status"), "%d must be 400 to 599, or 0 for 429", r.Status)
	}
	if problem := r.RetryJitter.problem(); problem != "" {
		c.fault(in("RetryJitter"), "%s", problem)
	}
	r.ExemptNetworks = c.networks(in("ExemptNetworks"), r.ExemptNetworks)
	if everyAddress(r.ExemptNetworks) {
		c.fault(in("ExemptNetworks"), "exempt every address: the rule can never apply; leave it out, or exempt less")
	}
	if len(r.Levels) == 0 || len(r.Levels) > bounds.MaxLevels {
		c.fault(in("Levels"), "%d levels; a rule has 1 to %d", len(r.Levels), bounds.MaxLevels)
	}
	if r.Lease != nil {
		c.lease(r)
	}
	r.Levels = slices.Clone(r.Levels)
	r.levels = make([]CompiledLevel, len(r.Levels))
	for i := range r.Levels {
		c.level(r, i)
	}
	c.shape(r)
	c.answer(r)
	if r.HoldFor != 0 {
		c.holds(r)
	}
}

// holds reports faults of a rule that holds its estimate.
func (c *compiler) holds(r *rule) {
	switch {
	case r.HoldFor < sluice.MinHold || r.HoldFor > sluice.MaxHold:
		c.fault(in("HoldFor"), "%v must be %v to %v", r.HoldFor, sluice.MinHold, sluice.MaxHold)
	case r.Cost.Of == RequestBytes:
		c.fault(in("HoldFor"), "the bytes of requests are charged as they are read, and not held; leave it out")
	case !r.Cost.Afterwards():
		c.fault(in("HoldFor"), "the cost is known on arrival, so nothing is settled; leave it out, or charge what the response costs")
	case r.When != nil && !r.When.ChargeFirst:
		c.fault(in("HoldFor"), "nothing is charged before the response, so nothing is held; use charge: first, or leave it out")
	case r.Shape, r.MaxWait > 0, r.Lease != nil:
		c.fault(in("HoldFor"), "requests that may wait, and units taken in advance, are not held; leave one of them out")
	}
}

func (c *compiler) cost(cost *Cost) {
	header := cost.Of == RequestHeader || cost.Of == ResponseHeader
	switch {
	case cost.Of >= costs:
		c.fault(in("Cost"), "%d is not a cost; use one of the constants of CostOf", cost.Of)
		return
	case cost.Func != nil && *cost != (Cost{Func: cost.Func}):
		c.fault(in("Cost"), "a Func is the cost by itself; leave out the rest")
	case (cost.bytes() || cost.Of == Milliseconds) && cost.Units != 0:
		c.fault(in("Cost"), "units belong to a fixed cost or the estimate of a header's; leave them out")
	case cost.Units < 0 || cost.Units > sluice.MaxQuota:
		c.fault(in("Cost"), "%d units must be 1 to %d", cost.Units, int64(sluice.MaxQuota))
	}
	if !header {
		if cost.Header != "" || cost.Most != 0 {
			c.fault(in("Cost"), "only the cost of a header has a header and a most; leave them out")
		}
		return
	}
	if !wire.Token(cost.Header) {
		c.fault(in("Cost"), "%q is not a header field's name; use one such as X-User", cost.Header)
	}
	if cost.Most < 1 || cost.Most > sluice.MaxQuota {
		c.fault(in("Cost"), "most %d must be 1 to %d: the largest number that is accepted from the header", cost.Most, int64(sluice.MaxQuota))
	}
	cost.Header = canonical(cost.Header)
}
