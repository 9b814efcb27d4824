// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// refusesAll reports whether all clients are refused while the shared store is unavailable,
// over HTTP and TCP.
func (s *runtime) refusesAll() bool {
	c := s.active()
	p := c.Policy
	listeners, web := listenersOf(c), false
	for i := range listeners {
		l := &listeners[i]
		switch {
		case !l.TCP():
			web = true
		case !closedTCP(l):
			return false
		}
	}
	return !web || closedHTTP(p)
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
func (s *runtime) oneFailure() (of sluice.Failure, same bool) {
	if s.refusesAll() {
		return sluice.FailClosed, true
	}
	all := s.failures()
	if len(all) != 1 || all[0] == sluice.FailClosed {
		return of, false
	}
	return all[0], true
}

// notApplied returns the limits that do not apply to some requests let through while the
// shared store is unavailable: all limits, shared limits, or "" if none pass.
func (s *runtime) notApplied() string {
	switch all := s.failures(); {
	case s.refusesAll():
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
func (s *runtime) failures() (all []sluice.Failure) {
	c := s.active()
	p := c.Policy
	for i := range len(p.Rules()) {
		if r := &p.Rules()[i]; !r.Shadow {
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
