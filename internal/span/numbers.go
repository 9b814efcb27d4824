// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package span

import "time"

// WideUnit and WideLongest are how long a window is at least and at most, in µs, of which
// a word holds more units than of others.
const (
	WideUnit    = 1 << 19
	WideLongest = 1 << 42
)

// The largest second number of a state that is a word, where it is Wide and elsewhere.
const (
	MostInWideWord = 1<<33 - 1
	MostInWord     = 1<<16 - 1
)

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
	// OneWord says that the states of the limit are two numbers, but where units are
	// reserved, the second at most MostInWord; and Plain that a take looks at no more than
	// these. Horizon is how many µs ahead of now such a state may be idle, unless the
	// clock has stepped back.
	OneWord, Plain bool
	MostInWord     int64
	Horizon        int64
	// Wide says that the first number is a multiple of Micros, which is at least
	// WideUnit: with that known less than WideUnit too much is as good. Inverse is that
	// of Micros then.
	Wide bool
	// Counted says that algo.CountTake decides takes of the limit.
	Counted bool
	// Lent is how many units above Burst a take may spend: Debt where NextWaits.
	Lent int64
	// Micros is the window and Sub a sub-window, in µs.
	Micros, Sub int64
	// Behind is how many sub-windows a sliding counter counts beside the
	// running one: all SubWindows or, if Whole, all but one.
	Behind int
	// Ring says that states may have a Ring, and LogWords is the most words that it needs for
	// a log or histogram, if no other limit counts in it.
	Ring     bool
	LogWords int
	// Location is the time zone of a calendar window, nil of any other.
	Location *time.Location
}
