// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"maps"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// neverAdmits finds limits of a rule, its tiers and its overrides that no request of the rule
// can ever fit.
func (d *decoder) neverAdmits(n *yaml.Node, r *policy.Rule) {
	check := func(at *yaml.Node, set []policy.Limit) {
		at = cmp.Or(at, document.Child(n, "like"), n)
		for i, l := range set {
			if problem := r.NeverAdmits(l); problem != "" {
				d.Fault(limitItem(at, i), "%s", problem)
			}
		}
	}
	for i := range r.Levels {
		l, at := &r.Levels[i], n
		if levels := document.Child(n, "levels"); levels != nil {
			at = item(levels, i)
		}
		check(document.Child(at, "limits"), l.Limits)
		if l.Tiers != nil {
			for _, tier := range slices.Sorted(maps.Keys(l.Tiers.Limits)) {
				check(document.Child(document.Child(document.Child(at, "tiers"), "limits"), tier), l.Tiers.Limits[tier])
			}
		}
		for k := range l.Overrides {
			check(document.Child(item(document.Child(at, "overrides"), k), "limits"), l.Overrides[k].Limits)
		}
	}
}
