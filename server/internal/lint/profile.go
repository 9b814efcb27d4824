// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/profile"
)

// profileWords describes the profiles of a rule, and what they leave out.
func profileWords(names []string) (lines []string) {
	for _, name := range names {
		p, _ := profile.Get(name)
		lines = append(lines, "like "+p.Name+": "+p.Title)
		for _, text := range p.Differs {
			lines = append(lines, "  but "+text)
		}
	}
	return lines
}

// profileLimits returns the limits of profiles.
func profileLimits(names []string) (limits []sluice.Limit) {
	for _, name := range names {
		p, _ := profile.Get(name)
		limits = append(limits, p.Limits...)
	}
	return limits
}
