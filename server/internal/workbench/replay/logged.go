// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/server/internal/workbench/arrivals"
)

// Columns returns rules whose key, or cost, is that of the log's columns: see
// arrivals.Options. In the place of a client's address its name counts, too.
func Columns(p *policy.Policy, key, cost bool) (*policy.Policy, error) {
	finder, err := clientip.New(clientip.Options{})
	if err != nil {
		return nil, err
	}
	return rewrite(p, func(r *policy.Rule, l *policy.Level) {
		if key {
			l.By = []policy.Part{part("key", func(a *arrivals.Arrival) string { return a.Key })}
		} else if slices.Equal(l.By, []policy.Part{policy.IP()}) {
			l.By = []policy.Part{part("ip", func(a *arrivals.Arrival) string {
				if a.Name != "" {
					return a.Name
				}
				return finder.Group(a.Client)
			})}
		}
		if cost {
			r.Cost = policy.Cost{Func: &policy.CostFunc{Before: func(a policy.Attributes) (int64, error) { return arrivalOf(a).Cost, nil }}}
		}
	})
}

// rewrite compiles changed copies of all rules.
func rewrite(p *policy.Policy, change func(*policy.Rule, *policy.Level)) (*policy.Policy, error) {
	rules := slices.Clone(p.Rules())
	for i := range rules {
		rules[i].Levels = slices.Clone(rules[i].Levels)
		for j := range rules[i].Levels {
			change(&rules[i], &rules[i].Levels[j])
		}
	}
	return policy.Compile(rules)
}

// part returns a part of a key that is a text of an arrival.
func part(name string, of func(*arrivals.Arrival) string) policy.Part {
	return policy.Func(name, func(a policy.Attributes) (string, error) { return of(arrivalOf(a)), nil })
}

// arrivalOf returns the arrival behind attributes of this package.
func arrivalOf(a policy.Attributes) *arrivals.Arrival {
	if of, ok := a.(*attributes); ok {
		return of.Arrival
	}
	return new(arrivals.Arrival)
}
