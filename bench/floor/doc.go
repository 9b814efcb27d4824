// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

// Package floor is the yardstick of the comparison: the least work that an
// exact rate limit in one process seems to need. It is no limiter for use. It
// knows one algorithm and one limit, answers yes or no and nothing else, has a
// fixed size, and its clock cannot be set.
//
// The algorithm is the generic cell rate algorithm. Its whole state is one
// machine word, the instant at which the key is as if new, here in
// nanoseconds since the floor was made. [Word] is that word alone; [Table]
// keeps one for each of many keys.
package floor
