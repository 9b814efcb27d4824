// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	"github.com/sluicegate/sluice/config"
)

// invited hints at tiers without limits that clients can claim themselves.
func invited(c *config.Config) (hints []Hint) {
	for i := range len(c.Policy.Rules()) {
		r := &c.Policy.Rules()[i]
		for j := range r.Levels {
			t := r.Levels[j].Tiers
			if t == nil || !chosen(r, t.By) {
				continue
			}
			who := "names no tier"
			if len(t.Unlimited) > 0 {
				who = "says " + t.Unlimited[0]
			}
			if (len(t.Unlimited) > 0 || r.Levels[j].Unlimited) && !r.Shadow {
				hints = append(hints, Hint{c.File, c.Line(i), fmt.Sprintf("rule %q: clients choose the %v %s, and a client that %s has no limit; let a proxy in front set it, or take a claim",
					r.Name, t.By.Source, t.By.Name, who)})
			}
		}
	}
	return hints
}
