// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/policy"
)

// literalStars warns of paths with a star, which other programs take for any text.
func literalStars(r *policy.Rule) (texts []string) {
	for _, path := range slices.Concat(r.Match.Paths, r.Match.Except) {
		if strings.Contains(path, "*") {
			texts = append(texts, fmt.Sprintf("the * of path %s stands for itself; use {name} for any one segment, and end a path with / for all below it", path))
		}
	}
	return texts
}
