// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package algo

import (
	"time"

	"github.com/sluicegate/sluice"
)

// Output is Released and Delay of [Worst] in any span (t, t+d].
func Output(l sluice.Limit, d time.Duration) (units int64, wait time.Duration) {
	if l.Validate() != nil {
		return 0, 0
	}
	return output(l.Filled(), d)
}
