// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/source"
	"github.com/sluicegate/sluice/policy"
)

// unreached warns of key parts after one that every request has, so that they are never the
// first.
func unreached(c *config.Config, r *policy.Rule) (texts []string) {
	for i := range r.Levels {
		for _, p := range r.Levels[i].By {
			if p.Source == source.First {
				texts = append(texts, behind(c, p.Parts())...)
			}
		}
	}
	return texts
}

func behind(c *config.Config, parts []policy.Part) (texts []string) {
	required := c.Tokens != nil && c.Tokens.Required
	for i, p := range parts[:len(parts)-1] {
		next := parts[i+1]
		switch {
		case p.Source == source.IP || p.Source == source.Method:
			return append(texts, fmt.Sprintf("every request has the %v, so that %v behind it is never the first; use %v last", p, next, p))
		case p.Source == source.Claim && required:
			texts = append(texts, fmt.Sprintf("only a token without the claim %s gets to %v: a request without a token is answered with 401, as tokens.required says; leave that out, or %v", p.Name, next, next))
		}
	}
	return texts
}
