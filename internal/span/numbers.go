// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package span

import "time"

// Numbers are computed from a limit, for the code that decides by it. Term of package
// sluice embeds them under an unexported name: its fields are at hand in this module
// and no part of the public API.
type Numbers struct {
	// Rate is a unit's share of the window; Reach is how long Burst units last
	// and Most how long Burst and Debt units do. Of use to buckets.
	Rate        Rate
	Reach, Most Span
	// Inverse is that of Rate.Num, for Rate.UnitsOf.
	Inverse Inverse
	// OneWord says that every state of the limit is two numbers, the second below
	// 1<<16, and Plain that a take looks at no more than these. Horizon is how many µs
	// ahead of now such a state may be idle, unless the clock has stepped back.
	OneWord, Plain bool
	Horizon        int64
	// Counted says that algo.CountTake decides takes of the limit.
	Counted bool
	// Lent is how many units above Burst a take may spend: Debt where NextWaits.
	Lent int64
	// Micros is the window and Sub a sub-window, in µs.
	Micros, Sub int64
	// Behind is how many sub-windows a sliding counter counts beside the
	// running one: all SubWindows or, if Whole, all but one.
	Behind int
	// Location is the time zone of a calendar window, nil of any other.
	Location *time.Location
}
