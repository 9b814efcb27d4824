// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluicegate/sluice/policy"
)

// foreignPaths warns of paths with wildcards of other programs, which have no meaning here.
func foreignPaths(r *policy.Rule) (texts []string) {
	for _, path := range slices.Concat(r.Match.Paths, r.Match.Except) {
		if sign := foreignSign(path); sign != "" {
			texts = append(texts, fmt.Sprintf("the %s of path %s stands for itself; use {name} for any one segment, and end a path with / for all below it", sign, path))
		}
	}
	return texts
}

// foreignSign returns the first sign of a path with a meaning in other programs, or "". A
// colon within a segment, as in /v1/jobs:cancel, and a dollar that begins one, as in
// /$metadata, have none.
func foreignSign(path string) string {
	switch i := strings.IndexAny(path, "*[(^"); {
	case i >= 0:
		return path[i : i+1]
	case strings.Contains(path, "/:"):
		return ":"
	case strings.HasSuffix(path, "$"):
		return "$"
	}
	return ""
}
