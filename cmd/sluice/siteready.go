// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"

	file "github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/policy"
)

// refusesAll reports whether clients get nothing while a shared store is away:
// neither by HTTP nor by a listener for TCP.
func (s *site) refusesAll() bool {
	g := s.current.Load()
	if g == nil {
		return false
	}
	listeners, web := listenersOf(g.config), false
	for i := range listeners {
		l := &listeners[i]
		switch {
		case !l.TCP:
			web = true
		case !closedTCP(l):
			return false
		}
	}
	return !web || closedHTTP(g.policy)
}

func closedTCP(l *file.Listener) bool {
	return l.Limits.Limited() && l.Limits.Failure == policy.Closed
}

// closedHTTP reports whether a rule in force is closed that matches every
// request: then the others do not matter.
func closedHTTP(p *policy.Policy) bool {
	for i := range p.Len() {
		if r := p.Rule(i); !r.Shadow && r.Failure == policy.Closed && matchesAll(r) {
			return true
		}
	}
	return false
}

// matchesAll reports whether a rule leaves out no request, exemptions apart.
func matchesAll(r *policy.Rule) bool {
	return r.Match.MatchesAll() && slices.ContainsFunc(r.Levels, func(l policy.Level) bool {
		return l.Missing != policy.Skip || !slices.ContainsFunc(l.By, mayLack)
	})
}

// mayLack reports whether requests may lack a part of a key.
func mayLack(p policy.Part) bool {
	return p.Source != policy.SourceIP && p.Source != policy.SourceMethod
}
