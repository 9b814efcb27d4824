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
	for _, l := range r.Levels {
		if l.Missing != policy.Skip {
			return reflect.ValueOf(r.Match).IsZero()
		}
	}
	return false
}
