// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/algo"
	"github.com/sluicegate/sluice/internal/amount"
	"github.com/sluicegate/sluice/policy"
)

// crossing returns the limits of one name in several sets, tiers and overrides included, that
// admit more in turn than each alone: a key may move from one set to another. For buckets,
// which share a balance, that is so if neither contains the other; for windows, if their
// lengths differ.
func crossing(sets [][]policy.Limit) (texts []string) {
	var names []string
	versions := make(map[string][]sluice.Limit)
	for _, set := range sets {
		for _, l := range set {
			f := l.Limit.Filled()
			if versions[f.Name] == nil {
				names = append(names, f.Name)
			}
			if !slices.Contains(versions[f.Name], f) {
				versions[f.Name] = append(versions[f.Name], f)
			}
		}
	}
	for _, name := range names {
		all := versions[name]
		longest := slices.MaxFunc(all, func(a, b sluice.Limit) int { return int(a.Window - b.Window) }).Window
		most := int64(0)
		for _, l := range all {
			most = max(most, algo.Bound(l, longest))
		}
		if n := algo.Bound(all[0], longest, all[1:]...); n > most {
			texts = append(texts, fmt.Sprintf("a key that changes between the limits named %q, by a tier or an override, may pass up to %s within %s, more than any of them allows; use limits of which one contains the others, or names of their own",
				name, amount.Of(n, all[0].Unit == sluice.Bytes), amount.Lasting(longest)))
		}
	}
	return texts
}
