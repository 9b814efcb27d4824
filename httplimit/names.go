// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package httplimit

import (
	"sync"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

// names are what clients are told limits are called, each made when it is first
// needed. Their number is bounded by that of the policy's limits.
type names struct{ of sync.Map } // *sluice.Term to *label

// label is a limit as clients know it.
type label struct {
	term sluice.Term // with the Name that clients know
	item string      // of RateLimit-Policy
}

func (n *names) label(o *policy.Outcome) *label {
	if l, ok := n.of.Load(o.Limit); ok {
		return l.(*label) //nolint:forcetypeassert // nothing else is ever stored
	}
	l := &label{term: *o.Limit}
	l.term.Name = limitName(o.Rule, o.Level, o.Limit.Name)
	l.item = PolicyItem(&l.term)
	n.of.Store(o.Limit, l)
	return l
}

// limitName returns a limit's name among all of a policy.
func limitName(r *policy.Rule, l *policy.Level, limit string) string {
	name := levelName(r, l)
	if several(l) {
		name += "/" + limit
	}
	return name
}

func levelName(r *policy.Rule, l *policy.Level) string {
	if l.Name == "" {
		return r.Name
	}
	return r.Name + "/" + l.Name
}

// several reports whether a key of the level may be under more than one limit.
func several(l *policy.Level) bool {
	if more(l.Limits) {
		return true
	}
	for i := range l.Overrides {
		if more(l.Overrides[i].Limits) {
			return true
		}
	}
	if l.Tiers != nil {
		for _, limits := range l.Tiers.Limits {
			if more(limits) {
				return true
			}
		}
	}
	return false
}

func more(limits []policy.Limit) bool {
	return len(limits) > 1 || len(limits) == 1 && limits[0].Grace != nil
}
