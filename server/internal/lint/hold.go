// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"

	"github.com/sluicegate/sluice/internal/bounds"
	"github.com/sluicegate/sluice/policy"
)

// holding returns what is odd about the holds of a rule under a limit of one of its levels.
func holding(r *policy.Rule, l *policy.Level, limit policy.Limit) (texts []string) {
	if r.HoldFor == 0 {
		return nil
	}
	f := limit.Limit.Filled()
	if f.Burst > 0 {
		texts = append(texts, fmt.Sprintf("%v: on a busy bucket a held estimate is charged in full, as its units have refilled before it is settled; use fixed-window or sliding-histogram for a budget", limit))
	}
	if len(l.By) == 0 && r.HoldFor > f.Window {
		texts = append(texts, fmt.Sprintf("%v: all requests share one key, which has %d holds at most, and the holds of a gateway that has died last for hold_for, longer than the window; use a hold_for of at most %v, or by", limit, bounds.MaxHolds, f.Window))
	}
	return texts
}
