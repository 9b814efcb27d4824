// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package span

// Limit is the numbers that follow from a limit, for those that decide by it.
type Limit struct {
	// Rate is a unit's share of the window; Reach is how long Burst units last
	// and Most how long Burst and Debt units do. Of use to buckets.
	Rate        Rate
	Reach, Most Span
	// Lent is how many units above Burst a take may spend: Debt where NextWaits.
	Lent int64
	// Micros is the window and Sub a sub-window, in µs.
	Micros, Sub int64
	// Behind is how many sub-windows a sliding counter counts beside the
	// running one: all SubWindows or, if Whole, all but one.
	Behind int
}
