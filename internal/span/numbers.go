// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package span

import "time"

// WideUnit and WideLongest are the shortest and the longest window, in µs, for which a wide
// word holds more units than another word.
const (
	WideUnit    = 1 << 19
	WideLongest = 1 << 42
)

// The largest second number of a state that is a wide word, and of one that is another word.
const (
	MostInWideWord = 1<<33 - 1
	MostInWord     = 1<<16 - 1
)

// Numbers are computed from a limit, for the code that decides by it. Term of package
// sluice embeds them under an unexported name: its fields can be used in this module and are
// not part of the public API.
type Numbers struct {
	// Rate is a unit's share of the window. Reach is the time that Burst units last, and Most
	// the time that Burst and Debt units last. They are for buckets.
	Rate        Rate
	Reach, Most Span
	// Inverse is the Inverse of Rate.Num, for Rate.UnitsOf.
	Inverse Inverse
	// OneWord says that a state of the limit is two numbers, unless units are reserved, the
	// second at most MostInWord. Plain says that a take needs only these. Horizon is the most
	// µs that the Idle of such a state may be ahead of now, unless the clock has stepped back.
	OneWord, Plain bool
	MostInWord     int64
	Horizon        int64
	// Wide says that the first number is a multiple of Micros, which is at least WideUnit: the
	// number is still known if it is stored up to WideUnit too large. Inverse is then the
	// Inverse of Micros.
	Wide bool
	// Counted says that algo.CountTake decides takes of the limit.
	Counted bool
	// Lent is how many units above Burst a take may spend: the Debt, with NextWaits.
	Lent int64
	// Micros is the window and Sub a sub-window, in µs.
	Micros, Sub int64
	// Behind is how many sub-windows a sliding counter counts beside the
	// running one: all SubWindows or, if Whole, all but one.
	Behind int
	// Ring says that states may have a Ring. LogWords is the most words that it needs for a
	// log or histogram, if no other limit counts in it.
	Ring     bool
	LogWords int
	// Location is the time zone of a calendar window, nil for any other.
	Location *time.Location
}
