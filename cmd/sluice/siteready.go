// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"

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

// closedHTTP reports whether all rules in force are closed, or one that matches
// every request is: then the others do not matter.
func closedHTTP(p *policy.Policy) bool {
	closed, others := false, false
	for i := range p.Len() {
		r := p.Rule(i)
		switch {
		case r.Shadow:
		case r.Failure != policy.Closed:
			others = true
		case matchesAll(r):
			return true
		default:
			closed = true
		}
	}
	return closed && !others
}

// matchesAll reports whether a rule leaves out no request, exemptions apart.
func matchesAll(r *policy.Rule) bool {
	for _, l := range r.Levels {
		if l.Missing != policy.Skip {
			return reflect.ValueOf(r.Match).IsZero()
		}
	}
	return false
}
