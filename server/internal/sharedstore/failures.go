// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package sharedstore

import (
	"slices"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// refusesAll reports whether all clients are refused while the shared store is unavailable,
// over HTTP and TCP.
func refusesAll(c *config.Config) bool {
	web := len(c.Listen) == 0
	for i := range c.Listen {
		l := &c.Listen[i]
		switch {
		case !l.TCP():
			web = true
		case !closedTCP(l):
			return false
		}
	}
	return !web || closedHTTP(c.Policy)
}

func closedTCP(l *config.Listener) bool {
	return l.Limits.Limited() && l.Limits.Failure == sluice.FailClosed
}

// closedHTTP reports whether an active rule with the policy closed matches every request: the
// other rules do not matter then.
func closedHTTP(p *policy.Policy) bool {
	for i := range len(p.Rules()) {
		if r := &p.Rules()[i]; !r.Shadow && r.Failure == sluice.FailClosed && matchesAll(r) {
			return true
		}
	}
	return false
}

// matchesAll reports whether r applies to every request, exemptions apart.
func matchesAll(r *policy.Rule) bool {
	return r.Match.MatchesAll() && slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		if l.Unlimited || l.Tiers != nil && len(l.Tiers.Unlimited) > 0 {
			return false // some requests pass without the store
		}
		return l.Missing != policy.Skip || !slices.ContainsFunc(l.By, mayLack)
	})
}

// mayLack reports whether requests may lack a part of a key.
func mayLack(p policy.Part) bool {
	switch p.Source {
	case source.First:
		return !slices.ContainsFunc(p.Parts(), func(p policy.Part) bool { return !mayLack(p) })
	case source.All:
		return slices.ContainsFunc(p.Parts(), mayLack)
	default:
		return p.Source != source.IP && p.Source != source.Method
	}
}

// oneFailure returns the failure policy for all clients, and false if it is not the same for
// all.
func oneFailure(c *config.Config) (of sluice.Failure, same bool) {
	if refusesAll(c) {
		return sluice.FailClosed, true
	}
	all := failures(c)
	if len(all) != 1 || all[0] == sluice.FailClosed {
		return of, false
	}
	return all[0], true
}

// notApplied returns the limits that do not apply to some requests let through while the
// shared store is unavailable: all limits, shared limits, or "" if none pass.
func notApplied(c *config.Config) string {
	switch all := failures(c); {
	case refusesAll(c):
		return ""
	case slices.Contains(all, sluice.FailOpen):
		return "limits"
	case slices.Contains(all, sluice.FailLocal):
		return "shared limits"
	default:
		return ""
	}
}

// failures returns the policies of the enforced rules and limited TCP listeners in order,
// without adjacent duplicates.
func failures(c *config.Config) (all []sluice.Failure) {
	for i := range c.Policy.Rules() {
		if r := &c.Policy.Rules()[i]; !r.Shadow {
			all = append(all, r.Failure)
		}
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; l.TCP() && l.Limits.Limited() {
			all = append(all, l.Limits.Failure)
		}
	}
	return slices.Compact(all)
}

// failureOf returns the failure policy of a scope: that of its rule or its listener.
func failureOf(c *config.Config, scope string) sluice.Failure {
	if i, ok := c.Policy.RuleOf(scope); ok {
		return c.Policy.Rules()[i].Failure
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; strings.HasPrefix(scope, l.Scope()+"/") {
			return l.Limits.Failure
		} else if scope == l.RLS.Scope() {
			return sluice.FailClosed // Envoy gets an error, and has a policy of its own
		}
	}
	return sluice.FailOpen
}

// leaseOf returns the terms on which the limits of a plan are leased, by its rule. After a
// change of the terms the store carries over what keys have spent, as after any change of a
// limit, and requests under the new terms do not use units leased under the old ones.
func leaseOf(c *config.Config, p *sluice.Plan) (terms sluice.LeaseTerms, leased bool) {
	i, ok := c.Policy.RuleOf(p.Scope())
	if !ok || c.Policy.Rules()[i].Lease == nil {
		return terms, false
	}
	terms = *c.Policy.Rules()[i].Lease
	_, _, err := p.Lease(terms) // limits of an override or a candidate may not fit the terms
	return terms, err == nil
}
