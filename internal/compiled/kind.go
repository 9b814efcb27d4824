// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package compiled

import "slices"

// Kind is the Algorithm of a limit, without its options. It is part of the stored formats.
type Kind uint8

// The kinds, in the order of the algorithms.
const (
	TokenBucket Kind = iota
	LeakyBucket
	FixedWindow
	SlidingLog
	SlidingCounter
	SlidingHistogram
	Block
)

// Bucket reports whether k has a Burst.
func (k Kind) Bucket() bool { return k <= LeakyBucket }

// KindNames are the names of the kinds in limit texts and configuration.
var KindNames = [...]string{"token-bucket", "leaky-bucket", "fixed-window", "sliding-log", "sliding-counter", "sliding-histogram", "block"}

// String returns the name used in limit texts and configuration.
func (k Kind) String() string { return KindNames[k] }

// KindNamed returns the kind of that name; "gcra" is another name of token-bucket.
func KindNamed(name string) (k Kind, ok bool) {
	i := slices.Index(KindNames[:], name)
	return Kind(max(i, 0)), i >= 0 || name == "gcra"
}
