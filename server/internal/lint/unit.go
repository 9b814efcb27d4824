// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/policy"
)

var requestCount = regexp.MustCompile(`\b[0-9]+ requests?\b`)

// inUnits replaces requests by the units of c in a description of a limit.
func inUnits(c policy.Cost, text string) string {
	unit := "unit"
	switch {
	case c.Of == policy.RequestBytes, c.Of == policy.ResponseBytes, c.Of == policy.Fixed && c.Units <= 1:
		return text
	case c.Of == policy.Milliseconds:
		unit = "millisecond"
	}
	return requestCount.ReplaceAllStringFunc(text, func(found string) string {
		digits, _, _ := strings.Cut(found, " ")
		n, err := strconv.ParseInt(digits, 10, 64)
		switch {
		case err != nil:
			return found
		case c.Of == policy.Fixed:
			return fmt.Sprintf("%s (%s)", count(n, unit), count(n/c.Units, "request"))
		}
		return count(n, unit)
	})
}

// served returns l without the rest of its quota that is less than the fixed cost of a
// request, and so never used.
func served(c policy.Cost, l sluice.Limit) sluice.Limit {
	whole := l
	whole.Quota -= l.Quota % max(c.Units, 1)
	if c.Of != policy.Fixed || !counts(l) || l.Debt > 0 || whole.Validate() != nil {
		return l
	}
	return whole
}

// counts reports whether a limit counts whole units, and gives none back before they are a
// window old or their window ends.
func counts(l sluice.Limit) bool {
	_, sliding := l.Algorithm.(sluice.SlidingCounter)
	return l.Filled().Burst == 0 && !sliding
}
