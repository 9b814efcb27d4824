// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/sluicegate/sluice/internal/clientip"
	"github.com/sluicegate/sluice/policy"
)

// Columns returns rules whose key, or cost, is that of the log's columns: see arrivals.Options.
// In the place of a client's address a name counts, too.
func Columns(p *policy.Policy, key, cost bool) (*policy.Policy, error) {
	rules := slices.Clone(p.Rules())
	for i := range rules {
		r := &rules[i]
		r.Levels = slices.Clone(r.Levels)
		for j := range r.Levels {
			if l := &r.Levels[j]; key {
				l.By = []policy.Part{policy.Func("key", func(a policy.Attributes) (string, error) { return arrivalOf(a).Key, nil })}
			} else if slices.Equal(l.By, []policy.Part{policy.IP()}) {
				l.By = []policy.Part{byClient()}
			}
		}
		if cost {
			r.Cost = policy.Cost{Func: &policy.CostFunc{Before: func(a policy.Attributes) (int64, error) { return arrivalOf(a).Cost, nil }}}
		}
	}
	return policy.Compile(rules)
}

// byClient is the address or the name of a client.
func byClient() policy.Part {
	finder, err := clientip.New(clientip.Options{})
	return policy.Func("ip", func(a policy.Attributes) (string, error) {
		of := arrivalOf(a)
		if err != nil || of.Name != "" {
			return of.Name, err
		}
		return finder.Group(of.Client), nil
	})
}
